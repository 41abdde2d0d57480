#include "engine/qemu/qmp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"

enum { COMMAND_MAX = 1024, READ_ROOM = 4096 };

struct words {
    struct str qmp, result, event, timestamp, data;
    struct {
        struct str class, desc;
    } error;
    int64_t id;
    bool has_qmp, has_result, has_error, has_event, has_id;
};

static const struct json_field error_fields[] = {
    {"class", JSON_TEXT, offsetof(struct words, error.class) - offsetof(struct words, error),
     REQUIRED, .max = 64},
    {"desc", JSON_TEXT, offsetof(struct words, error.desc) - offsetof(struct words, error),
     REQUIRED, .max = 4096},
    {0},
};

static const struct json_field message_fields[] = {
    {"QMP", JSON_RAW, offsetof(struct words, qmp), OPTIONAL, .max = QMP_LINE_MAX,
     .present = offsetof(struct words, has_qmp)},
    {"return", JSON_RAW, offsetof(struct words, result), OPTIONAL, .max = QMP_LINE_MAX,
     .present = offsetof(struct words, has_result)},
    {"error", JSON_OBJ, offsetof(struct words, error), OPTIONAL, .fields = error_fields,
     .present = offsetof(struct words, has_error)},
    {"event", JSON_TEXT, offsetof(struct words, event), OPTIONAL, .max = 64,
     .present = offsetof(struct words, has_event)},
    {"id", JSON_INTEGER, offsetof(struct words, id), OPTIONAL, .max = INT64_MAX,
     .present = offsetof(struct words, has_id)},
    {"timestamp", JSON_RAW, offsetof(struct words, timestamp), OPTIONAL, .max = QMP_LINE_MAX},
    {"data", JSON_RAW, offsetof(struct words, data), OPTIONAL, .max = QMP_LINE_MAX},
    {0},
};

bool qmp_parse(struct str line, struct arena *arena, struct qmp_message *message, struct error *err)
{
    struct words words;

    *message = (struct qmp_message){0};
    if (!json_read(line, message_fields, &words, sizeof(words), arena, err))
        return error_wrap(err, "the monitor");

    int n = words.has_qmp + words.has_result + words.has_error + words.has_event;
    if (n != 1)
        return error_set(err, ERR_INVALID, "the monitor said %d things at once", n);
    message->id = words.has_id ? words.id : 0;
    if (words.has_qmp)
        message->kind = QMP_GREETING;
    if (words.has_event) {
        message->kind = QMP_EVENT;
        message->text = words.event;
    }
    if (words.has_result) {
        message->kind = QMP_RETURN;
        message->body = words.result;
    }
    if (words.has_error) {
        message->kind = QMP_ERROR;
        message->text = words.error.desc;
    }
    return true;
}

void qmp_init(struct qmp *qmp, int fd)
{
    *qmp = (struct qmp){.fd = fd, .in = {.max = QMP_LINE_MAX}};
}

void qmp_finish(struct qmp *qmp)
{
    auto_close(&qmp->fd);
    qmp->fd = -1;
    buf_finish(&qmp->in);
}

/* More bytes, or the end of the conversation. */
static bool receive(struct qmp *qmp, int64_t deadline_ms, struct error *err)
{
    struct pollfd ready = {.fd = qmp->fd, .events = POLLIN};
    int64_t left = deadline_ms - time_boot_ms();
    char bytes[READ_ROOM];

    if (left <= 0 || poll(&ready, 1, (int)(left < INT32_MAX ? left : INT32_MAX)) == 0)
        return error_set(err, ERR_TIMEOUT, "the monitor does not answer");
    ssize_t got = recv(qmp->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR || error_errno(err, "read from the monitor");
    if (got == 0)
        return error_set(err, ERR_UNAVAILABLE, "the monitor is gone");
    if (!buf_append(&qmp->in, (struct str){bytes, (size_t)got}, err))
        return error_wrap(err, "a line of the monitor");
    return true;
}

/* The next message that is no event. It points into the arena. */
static bool next(struct qmp *qmp, struct arena *arena, struct qmp_message *message,
                 int64_t deadline_ms, struct error *err)
{
    for (;;) {
        const char *end = qmp->in.len ? memchr(qmp->in.bytes, '\n', qmp->in.len) : NULL;
        if (!end) {
            if (!receive(qmp, deadline_ms, err))
                return false;
            continue;
        }
        size_t len = (size_t)(end - qmp->in.bytes);
        struct str line = str_trim((struct str){qmp->in.bytes, len}, STR("\r"));
        if (!qmp_parse(line, arena, message, err))
            return false;
        buf_consume(&qmp->in, len + 1);
        if (message->kind != QMP_EVENT)
            return true;
    }
}

/* With a descriptor, when there is one; the commands are short, the socket takes them whole. */
static bool transmit(struct qmp *qmp, struct str text, int file, struct error *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)text.ptr, .iov_len = text.len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (file >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &file, sizeof(int));
    }
    ssize_t sent = sendmsg(qmp->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return error_errno(err, "write to the monitor");
    return (size_t)sent == text.len || error_set(err, ERR_UNAVAILABLE, "the monitor does not read");
}

/* `arguments` is an object as JSON, or NULL. */
static bool command(struct qmp *qmp, const char *name, const char *arguments, int file,
                    struct arena *arena, struct str *body, int64_t deadline_ms, struct error *err)
{
    struct qmp_message answer = {0};
    char text[COMMAND_MAX];

    if (qmp->fd < 0)
        return error_set(err, ERR_UNAVAILABLE, "there is no monitor");
    int len = snprintf(text, sizeof(text), "{\"execute\":\"%s\",\"arguments\":%s,\"id\":%lld}\n",
                       name, arguments ? arguments : "{}", (long long)++qmp->last_id);
    if (len < 0 || (size_t)len >= sizeof(text))
        return error_set(err, ERR_INTERNAL, "a command is too long");
    if (!transmit(qmp, (struct str){text, (size_t)len}, file, err) ||
        !next(qmp, arena, &answer, deadline_ms, err))
        return error_wrap(err, "%s", name);
    if (answer.kind == QMP_GREETING || answer.id != qmp->last_id)
        return error_set(err, ERR_INVALID, "%s: the monitor answered something else", name);
    if (answer.kind == QMP_ERROR)
        return error_set(err, ERR_INTERNAL, "%s: %.*s", name,
                         (int)(answer.text.len < 160 ? answer.text.len : 160), answer.text.ptr);
    if (body)
        *body = answer.body;
    return true;
}

static bool plain(struct qmp *qmp, const char *name, const char *arguments, int file,
                  int64_t deadline_ms, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};

    return command(qmp, name, arguments, file, &arena, NULL, deadline_ms, err);
}

bool qmp_greet(struct qmp *qmp, int64_t deadline_ms, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct qmp_message greeting = {0};

    if (qmp->fd < 0)
        return error_set(err, ERR_UNAVAILABLE, "there is no monitor");
    if (qmp->is_met)
        return true;
    if (!next(qmp, &arena, &greeting, deadline_ms, err))
        return false;
    if (greeting.kind != QMP_GREETING)
        return error_set(err, ERR_INVALID, "the monitor does not greet");
    qmp->is_met = plain(qmp, "qmp_capabilities", NULL, -1, deadline_ms, err);
    return qmp->is_met;
}

bool qmp_stop(struct qmp *qmp, int64_t deadline_ms, struct error *err)
{
    return plain(qmp, "stop", NULL, -1, deadline_ms, err);
}

bool qmp_cont(struct qmp *qmp, int64_t deadline_ms, struct error *err)
{
    return plain(qmp, "cont", NULL, -1, deadline_ms, err);
}

bool qmp_status(struct qmp *qmp, char status[QMP_STATUS_ROOM], int64_t deadline_ms,
                struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str body = {0}, text = {0};

    if (!command(qmp, "query-status", NULL, -1, &arena, &body, deadline_ms, err))
        return false;
    if (!json_find_text(body, "status", &arena, &text) || text.len >= QMP_STATUS_ROOM)
        return error_set(err, ERR_INVALID, "query-status: the monitor names no status");
    snprintf(status, QMP_STATUS_ROOM, "%.*s", (int)text.len, text.ptr);
    return true;
}

/* A file is named by the set that its descriptor was put in: the process opens none by path. */
bool qmp_save_devices(struct qmp *qmp, int file, int64_t deadline_ms, struct error *err)
{
    return plain(qmp, "add-fd", "{\"fdset-id\":1}", file, deadline_ms, err) &&
           plain(qmp, "xen-save-devices-state", "{\"filename\":\"/dev/fdset/1\",\"live\":false}",
                 -1, deadline_ms, err) &&
           plain(qmp, "remove-fd", "{\"fdset-id\":1}", -1, deadline_ms, err);
}

void qmp_quit(struct qmp *qmp, int64_t deadline_ms)
{
    struct error ignored;

    (void)!plain(qmp, "quit", NULL, -1, deadline_ms, &ignored);
}
