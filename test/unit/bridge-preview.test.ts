import { describe, expect, test } from "bun:test";
import type { BridgeMessage } from "#protocol/bridge/messages.ts";
import { previewCharacters, previewMessage, previewValue } from "#protocol/bridge/preview.ts";

const key = "sk-abcdefghij0123456789";
/** as many characters as put what follows at the given position of `{"a":"…` */
const padTo = (position: number, head: string) => "x".repeat(position - head.length);

/** what is previewed, and the preview */
const table: [claim: string, value: unknown, preview: string][] = [
  ["a plain value is shown as its JSON", { a: 1, b: [true, null, "x"] }, '{"a":1,"b":[true,null,"x"]}'],
  ["apiKey", { apiKey: "abc" }, '{"apiKey":"[hidden]"}'],
  ["api_key", { api_key: "abc" }, '{"api_key":"[hidden]"}'],
  ["api-key, as a header", { "x-api-key": "abc" }, '{"x-api-key":"[hidden]"}'],
  ["APIKEY in capitals", { APIKEY: "abc" }, '{"APIKEY":"[hidden]"}'],
  ["ApI_kEy in mixed capitals", { ApI_kEy: "abc" }, '{"ApI_kEy":"[hidden]"}'],
  ["token", { token: "abc", a: 1 }, '{"token":"[hidden]","a":1}'],
  ["a longer name with Token in it", { accessToken: "abc" }, '{"accessToken":"[hidden]"}'],
  ["REFRESH_TOKEN", { REFRESH_TOKEN: "abc" }, '{"REFRESH_TOKEN":"[hidden]"}'],
  ["secret", { secret: "abc" }, '{"secret":"[hidden]"}'],
  ["client_secret", { client_secret: "abc" }, '{"client_secret":"[hidden]"}'],
  ["password", { user: "u", password: "abc" }, '{"user":"u","password":"[hidden]"}'],
  ["Authorization", { Authorization: "Bearer abc" }, '{"Authorization":"[hidden]"}'],
  ["a secret that is a number", { password: 1234 }, '{"password":"[hidden]"}'],
  ["a secret that is an object", { secret: { a: "abc" } }, '{"secret":"[hidden]"}'],
  ["a secret that is a list", { apiKeys: ["abc", "def"] }, '{"apiKeys":"[hidden]"}'],
  ["a secret key deep inside", { a: { b: [{ c: { token: "abc" } }] } }, '{"a":{"b":[{"c":{"token":"[hidden]"}}]}}'],
  ["a secret key in a list of lists", [[{ password: "abc" }]], '[[{"password":"[hidden]"}]]'],
  ["a string that is an sk- key", { value: key }, '{"value":"[hidden]"}'],
  ["a string that holds an sk- key", { text: `use ${key}, please` }, '{"text":"[hidden]"}'],
  ["an sk- key in a list", ["a", key, "b"], '["a","[hidden]","b"]'],
  ["an sk- key with more dashes", { v: "sk-proj-AbCd_1234-5678" }, '{"v":"[hidden]"}'],
  ["an sk- key as the name of a field", { [key]: 1 }, '{"[hidden]":1}'],
  ["sk- with 15 characters is no key", { v: "sk-abcdefghij01234" }, '{"v":"sk-abcdefghij01234"}'],
  ["sk- with 16 characters is one", { v: "sk-abcdefghij012345" }, '{"v":"[hidden]"}'],
  ["sk- with a break inside is no key", { v: "sk-abcdefgh ij0123456789" }, '{"v":"sk-abcdefgh ij0123456789"}'],
  ["unicode around a key", { v: `ключ 😀 ${key}` }, '{"v":"[hidden]"}'],
  ["unicode in plain text", { naïve: "日本語 😀" }, '{"naïve":"日本語 😀"}'],
  ["a key that only begins like one", { tok: "abc", pass: "abc" }, '{"tok":"abc","pass":"abc"}'],
  ["a value equal to a key's name", { name: "password" }, '{"name":"password"}'],
  [
    "an sk- key that straddles character 200 is hidden whole",
    { a: padTo(190, '{"a":"","b":"'), b: key },
    `{"a":"${padTo(190, '{"a":"","b":"')}","b":"[hidden]"}`.slice(0, 200),
  ],
  [
    "a string whose sk- key begins before and ends after character 200 is hidden from its start",
    { a: `${padTo(195, '{"a":"')}${key}` },
    '{"a":"[hidden]"}',
  ],
  [
    "a password that straddles character 200 shows nothing of itself",
    { a: padTo(180, '{"a":"","password":"'), password: "p".repeat(100) },
    `{"a":"${padTo(180, '{"a":"","password":"')}","password":"[hidden]"}`.slice(0, 200),
  ],
  ["a long text is cut at 200 characters", { a: "b".repeat(500) }, `{"a":"${"b".repeat(194)}`],
  [
    "characters outside the basic plane count once and stay whole",
    { a: "😀".repeat(500) },
    `{"a":"${"😀".repeat(194)}`,
  ],
  ["escapes are shown as JSON writes them", { a: 'q"\n\\' }, '{"a":"q\\"\\n\\\\"}'],
  ["a date is shown as JSON writes it", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ["fields that JSON leaves out are left out", { a: undefined, b: 1, c: () => 1 }, '{"b":1}'],
];

describe("previews of payloads", () => {
  test.each(table)("%s", (_, value, preview) => {
    expect(previewValue(value)).toBe(preview);
  });

  test("no preview is longer than 200 characters or holds a part of a secret", () => {
    for (const [, value, expected] of table) {
      const preview = previewValue(value);
      expect(Array.from(preview).length).toBeLessThanOrEqual(previewCharacters);
      if (expected.includes("[hidden]")) expect(preview).not.toContain("sk-");
    }
  });

  test("a secret at every position around character 200 shows nothing of itself", () => {
    for (let position = 150; position < 260; position += 1) {
      const preview = previewValue({ a: padTo(position, '{"a":"","b":"'), b: key, password: "hunter2hunter2" });
      expect(preview).not.toContain("sk-");
      expect(preview).not.toContain("hunter");
    }
  });

  test("a message of 16 MiB is previewed from its head", () => {
    const items = Array.from({ length: 1_000_000 }, (_, index) => ({ index }));
    const started = performance.now();
    expect(previewValue({ items })).toStartWith('{"items":[{"index":0},{"index":1},');
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

describe("previews of messages", () => {
  const messages: [claim: string, message: BridgeMessage, channel: string | undefined, preview: string][] = [
    [
      "the payload of a channel that sets keys",
      { t: "invoke", id: 1, win: 1, channel: "api-keys:set", args: ["openai", "abc"] },
      undefined,
      '{"t":"invoke","id":1,"win":1,"channel":"api-keys:set","args":"[hidden]"}',
    ],
    [
      "the same in a send, in other capitals",
      { t: "send", win: 1, channel: "API-Keys:Set", args: ["abc"] },
      undefined,
      '{"t":"send","win":1,"channel":"API-Keys:Set","args":"[hidden]"}',
    ],
    [
      "the same in an emit",
      { t: "emit", win: null, channel: "auth/password", args: ["abc"] },
      undefined,
      '{"t":"emit","win":null,"channel":"auth/password","args":"[hidden]"}',
    ],
    [
      "the result that such a channel answers",
      { t: "result", id: 1, result: "abc" },
      "api-keys:get",
      '{"t":"result","id":1,"result":"[hidden]"}',
    ],
    [
      "the error that such a channel answers",
      { t: "result", id: 1, error: { message: "abc is no key" } },
      "api-keys:set",
      '{"t":"result","id":1,"error":"[hidden]"}',
    ],
    [
      "another channel's payload is shown",
      { t: "invoke", id: 1, win: 1, channel: "notes:read", args: ["alpha.md"] },
      undefined,
      '{"t":"invoke","id":1,"win":1,"channel":"notes:read","args":["alpha.md"]}',
    ],
    [
      "another channel's result is shown",
      { t: "result", id: 1, result: "text" },
      "notes:read",
      '{"t":"result","id":1,"result":"text"}',
    ],
  ];
  test.each(messages)("%s", (_, message, channel, preview) => {
    expect(previewMessage(message, channel)).toBe(preview);
  });
});
