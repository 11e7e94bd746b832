/*
 * The core end of the app bridge in plain C, without a library: what a language without an SDK needs.
 *
 * Channel "hasher:crc32": the CRC-32 of a text, as eight hexadecimal digits. The app opens a window, and asks to quit
 * when that is closed. Build: cc -static -O2 -o hasher hasher.c
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { max_line = 16 * 1024 * 1024, read_size = 64 * 1024, max_depth = 512 };

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "hasher: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- JSON, as far as a core needs it: a value is the piece of text that holds it -------------------------------- */

struct text {
	const char *start;
	size_t length;
};

static const char *skip_space(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
		p++;
	return p;
}

/* The end of a string that starts at p, or NULL. */
static const char *skip_string(const char *p)
{
	for (p++; *p != '"'; p++) {
		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p == '\\' && *++p == '\0')
			return NULL;
	}
	return p + 1;
}

/* The end of the value that starts at p, or NULL when it is not one. */
static const char *skip_value(const char *p, int depth)
{
	char close;

	if (*p == '"')
		return skip_string(p);
	if (*p != '{' && *p != '[') {
		const char *start = p;
		while (*p != '\0' && strchr(",]} \t\r\n", *p) == NULL)
			p++;
		return p == start ? NULL : p;
	}
	if (depth == max_depth)
		return NULL;
	close = *p == '{' ? '}' : ']';
	p = skip_space(p + 1);
	if (*p == close)
		return p + 1;
	for (;;) {
		if (close == '}') {
			if (*p != '"' || (p = skip_string(p)) == NULL)
				return NULL;
			p = skip_space(p);
			if (*p++ != ':')
				return NULL;
			p = skip_space(p);
		}
		if ((p = skip_value(p, depth + 1)) == NULL)
			return NULL;
		p = skip_space(p);
		if (*p == close)
			return p + 1;
		if (*p++ != ',')
			return NULL;
		p = skip_space(p);
	}
}

/* The value of a field of an object whose text is whole. */
static bool find_field(const char *object, const char *name, struct text *value)
{
	size_t length = strlen(name);
	const char *p = skip_space(object + 1);

	while (*p == '"') {
		const char *key = p + 1;
		const char *end = skip_string(p);
		const char *start = skip_space(skip_space(end) + 1);
		p = skip_value(start, 1);
		if ((size_t)(end - 1 - key) == length && memcmp(key, name, length) == 0) {
			*value = (struct text){start, (size_t)(p - start)};
			return true;
		}
		p = skip_space(p);
		if (*p == ',')
			p = skip_space(p + 1);
	}
	return false;
}

static bool equals(struct text value, const char *json)
{
	return value.length == strlen(json) && memcmp(value.start, json, value.length) == 0;
}

static unsigned hex4(const char *p)
{
	char digits[5] = {p[0], p[1], p[2], p[3], '\0'};
	return (unsigned)strtoul(digits, NULL, 16);
}

static size_t put_utf8(char *out, unsigned c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* Decodes a string value into `out`, which has room for value.length bytes. Returns the number of bytes. */
static size_t decode_string(struct text value, char *out)
{
	const char *p = value.start + 1, *end = value.start + value.length - 1;
	size_t used = 0;

	while (p < end) {
		if (*p != '\\') {
			out[used++] = *p++;
			continue;
		}
		p++;
		if (*p == 'u' && end - p > 4) {
			unsigned c = hex4(p + 1);
			p += 5;
			if (c >= 0xd800 && c < 0xdc00 && end - p > 5 && p[0] == '\\' && p[1] == 'u') {
				c = 0x10000 + ((c - 0xd800) << 10) + (hex4(p + 2) - 0xdc00);
				p += 6;
			}
			used += put_utf8(out + used, c);
			continue;
		}
		switch (*p) {
		case 'n': out[used++] = '\n'; break;
		case 't': out[used++] = '\t'; break;
		case 'r': out[used++] = '\r'; break;
		case 'b': out[used++] = '\b'; break;
		case 'f': out[used++] = '\f'; break;
		default: out[used++] = *p;
		}
		p++;
	}
	return used;
}

/* --- the app ---------------------------------------------------------------------------------------------------- */

static uint32_t crc32(const char *bytes, size_t length)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < length; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0xedb88320 & -(crc & 1));
	}
	return ~crc;
}

static void say(int fd, const char *line)
{
	for (size_t left = strlen(line); left > 0;) {
		ssize_t count = send(fd, line, left, MSG_NOSIGNAL);
		if (count < 0)
			return; /* the host has gone; reading will tell */
		line += count;
		left -= (size_t)count;
	}
}

static void answer_invoke(int fd, const char *message, struct text id)
{
	struct text channel, args;
	char line[512];
	const char *first;
	char *decoded;
	size_t length;

	if (!find_field(message, "channel", &channel) || !find_field(message, "args", &args))
		return;
	if (!equals(channel, "\"hasher:crc32\"")) {
		snprintf(line, sizeof line, "{\"t\":\"result\",\"id\":%.*s,\"error\":{\"message\":\"no handler for channel %.*s\"}}\n",
		         (int)id.length, id.start, channel.length < 100 ? (int)channel.length - 2 : 0, channel.start + 1);
		say(fd, line);
		return;
	}
	first = skip_space(args.start + 1);
	if (*first != '"') {
		snprintf(line, sizeof line, "{\"t\":\"result\",\"id\":%.*s,\"error\":{\"message\":\"hasher:crc32 wants a text\"}}\n",
		         (int)id.length, id.start);
		say(fd, line);
		return;
	}
	length = (size_t)(skip_string(first) - first);
	if ((decoded = malloc(length)) == NULL)
		fail("out of memory");
	length = decode_string((struct text){first, length}, decoded);
	snprintf(line, sizeof line, "{\"t\":\"result\",\"id\":%.*s,\"result\":\"%08x\"}\n", (int)id.length, id.start,
	         crc32(decoded, length));
	free(decoded);
	say(fd, line);
}

/* One line of the host. What is not understood is logged and ignored. */
static void take_line(int fd, const char *line)
{
	const char *message = skip_space(line), *end;
	struct text type, id, event;

	if (*message == '\0')
		return;
	if (*message != '{' || (end = skip_value(message, 0)) == NULL || *skip_space(end) != '\0' ||
	    !find_field(message, "t", &type) || type.start[0] != '"') {
		fprintf(stderr, "hasher: a line that is not a message was dropped\n");
		return;
	}
	if (equals(type, "\"init\"")) {
		say(fd, "{\"t\":\"ready\"}\n"
		        "{\"t\":\"request\",\"id\":1,\"op\":\"window.create\",\"params\":{\"entry\":\"index.html\",\"title\":\"Hasher\"}}\n");
	} else if (equals(type, "\"invoke\"")) {
		if (find_field(message, "id", &id) && id.length < 20)
			answer_invoke(fd, message, id);
	} else if (equals(type, "\"window\"")) {
		if (find_field(message, "event", &event) && equals(event, "\"closed\""))
			say(fd, "{\"t\":\"request\",\"id\":2,\"op\":\"app.quit\",\"params\":{}}\n");
	} else if (equals(type, "\"before-quit\"")) {
		exit(0); /* there is no state to save */
	} else if (equals(type, "\"reply\"")) {
		if (find_field(message, "id", &id) && equals(id, "2"))
			exit(0);
	} else if (!equals(type, "\"send\"")) {
		fprintf(stderr, "hasher: message of unknown type %.*s ignored\n", type.length < 100 ? (int)type.length : 0, type.start);
	}
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof address.sun_path) {
		errno = ENAMETOOLONG;
		fail(path);
	}
	strcpy(address.sun_path, path);
	unlink(path);
	umask(0177);
	if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)
		fail(path);
	return fd;
}

int main(void)
{
	const char *path = getenv("VMAPP_SOCKET");
	int listener = listen_at(path != NULL ? path : "/run/vmapp/app.sock");
	int fd = accept(listener, NULL, NULL);
	size_t size = read_size, used = 0;
	char *buffer = malloc(size + 1);

	if (fd < 0 || buffer == NULL)
		fail("accept");
	for (;;) {
		/* A newer connection replaces the older. */
		int newer;
		fd_set ready;
		FD_ZERO(&ready);
		FD_SET(listener, &ready);
		FD_SET(fd, &ready);
		if (select((listener > fd ? listener : fd) + 1, &ready, NULL, NULL, NULL) < 0)
			fail("select");
		if (FD_ISSET(listener, &ready) && (newer = accept(listener, NULL, NULL)) >= 0) {
			close(fd);
			fd = newer;
			used = 0;
			continue;
		}
		if (size - used < read_size) {
			size *= 2;
			if ((buffer = realloc(buffer, size + 1)) == NULL)
				fail("out of memory");
		}
		ssize_t count = read(fd, buffer + used, size - used);
		if (count <= 0)
			return 0; /* the host has gone: so does the app */

		/* Lines are cut at the newline's byte; what was there before has none. */
		char *start = buffer, *scan = buffer + used, *end = scan + count, *newline;
		while ((newline = memchr(scan, '\n', (size_t)(end - scan))) != NULL) {
			*newline = '\0';
			if (newline - start <= max_line)
				take_line(fd, start);
			start = scan = newline + 1;
		}
		used = (size_t)(end - start);
		memmove(buffer, start, used);
		if (used > max_line) {
			errno = EMSGSIZE;
			fail("a line over 16 MiB");
		}
	}
}
