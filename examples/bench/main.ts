/** The app that `vmapp bench bridge` measures. */
import { app, ipcMain } from "#sdk/index.ts";

/** so many events are sent before their sender waits for room */
const eventsAtOnce = 1000;

app.on("disconnected", (event) => event.preventDefault());

ipcMain.handle("echo", (_event, value: unknown) => value);

ipcMain.handle("blob", (_event, bytes: number) => "b".repeat(bytes));

ipcMain.handle("burst", async (event, count: number) => {
  for (let index = 1; index <= count; index += 1) {
    const sent = event.sender.send("tick", index);
    if (index % eventsAtOnce === 0) await sent;
  }
  return count;
});
