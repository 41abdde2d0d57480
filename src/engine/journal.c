#include "engine/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/own.h"

enum { LINE_MAX_BYTES = 2048, FILE_MAX_BYTES = 1 << 20 };

enum verb { VERB_INTENT, VERB_MADE, VERB_GONE, VERB_COUNT };

static const char *const verb_names[VERB_COUNT] = {"intent", "made", "gone"};

static const char *const kind_names[RESOURCE_KIND_COUNT] = {
    "slot", "dir", "cgroup", "netns", "link", "mount", "process",
};

int journal_die_at;

const char *resource_kind_name(enum resource_kind kind)
{
    return kind_names[kind];
}

static bool word_find(struct str word, const char *const *names, size_t n, size_t *index)
{
    for (size_t i = 0; i < n; i++) {
        if (str_equal(word, str_of(names[i]))) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Names may hold any byte but NUL; the line keeps its shape by %XX for what would break it. */
static bool name_escape(const char *name, char *out, size_t room)
{
    static const char digits[] = "0123456789abcdef";

    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        if (room < 4)
            return false;
        if (*at > ' ' && *at < 0x7f && *at != '%') {
            *out++ = (char)*at;
            room--;
            continue;
        }
        *out++ = '%';
        *out++ = digits[*at >> 4];
        *out++ = digits[*at & 15];
        room -= 3;
    }
    *out = '\0';
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool name_unescape(struct str word, char *out, size_t room)
{
    size_t len = 0;

    while (word.len > 0) {
        char c = word.ptr[0];
        size_t used = 1;
        if (c == '%') {
            int high = word.len > 2 ? hex_digit(word.ptr[1]) : -1;
            int low = word.len > 2 ? hex_digit(word.ptr[2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            used = 3;
        }
        if (c == '\0' || len + 1 >= room)
            return false;
        out[len++] = c;
        word = (struct str){word.ptr + used, word.len - used};
    }
    out[len] = '\0';
    return len > 0;
}

static struct resource *list_find(struct journal_list *list, enum resource_kind kind,
                                  const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i].kind == kind && strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    }
    return NULL;
}

struct line {
    uint32_t seq;
    enum verb verb;
    struct resource resource;
};

static bool number_read(struct str word, int base, uint32_t *number)
{
    char text[16] = "";
    char *end;

    if (word.len == 0 || word.len >= sizeof(text))
        return false;
    memcpy(text, word.ptr, word.len);
    unsigned long value = strtoul(text, &end, base);
    *number = (uint32_t)value;
    return *end == '\0' && value <= UINT32_MAX;
}

static bool line_parse(struct str text, struct line *line)
{
    struct str word;
    uint32_t crc;
    size_t verb, kind;

    if (!str_split(&text, ' ', &word) || word.len != 8 || !number_read(word, 16, &crc) ||
        !text.ptr || crc32c(0, text) != crc)
        return false;
    if (!str_split(&text, ' ', &word) || !number_read(word, 10, &line->seq))
        return false;
    if (!str_split(&text, ' ', &word) || !word_find(word, verb_names, VERB_COUNT, &verb))
        return false;
    if (!str_split(&text, ' ', &word) || !word_find(word, kind_names, RESOURCE_KIND_COUNT, &kind))
        return false;
    line->verb = (enum verb)verb;
    line->resource = (struct resource){.kind = (enum resource_kind)kind};
    if (!str_split(&text, ' ', &word) ||
        !name_unescape(word, line->resource.name, sizeof(line->resource.name)))
        return false;
    if ((verb == VERB_MADE) != (text.ptr != NULL))
        return false;
    return verb != VERB_MADE ||
           name_unescape(text, line->resource.identity, sizeof(line->resource.identity));
}

/* False when the line says something an honest writer cannot have written. */
static bool list_apply(struct journal_list *list, const struct line *line)
{
    struct resource *known = list_find(list, line->resource.kind, line->resource.name);

    if (line->seq != list->next_seq)
        return false;
    if (line->verb == VERB_INTENT) {
        if (known || list->n == JOURNAL_RESOURCES_MAX)
            return false;
        list->items[list->n++] = line->resource;
    } else if (!known || known->gone) {
        return false;
    } else if (line->verb == VERB_MADE) {
        memcpy(known->identity, line->resource.identity, sizeof(known->identity));
    } else {
        known->gone = true;
    }
    list->next_seq++;
    return true;
}

bool journal_parse(struct str text, struct journal_list *list, struct error *err)
{
    *list = (struct journal_list){.next_seq = 1};

    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        struct line line;
        bool is_good = end && line_parse((struct str){text.ptr, len}, &line);
        bool is_last = !end || len + 1 == text.len;

        if (!is_good && is_last) {
            list->torn = true;
            return true;
        }
        if (!is_good || !list_apply(list, &line))
            return error_set(err, ERR_INTERNAL, "the journal is damaged at byte %zu",
                             list->good_bytes);
        list->good_bytes += len + 1;
        text = (struct str){text.ptr + len + 1, text.len - len - 1};
    }
    return true;
}

bool journal_create(int dir_fd, struct journal *journal, struct error *err)
{
    int fd = openat(dir_fd, "journal", O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return error_errno(err, "create the journal");
    *journal = (struct journal){.fd = fd, .next_seq = 1};
    return true;
}

static bool text_read(int fd, char *text, size_t room, size_t *len, struct error *err)
{
    *len = 0;
    while (*len < room) {
        ssize_t got = pread(fd, text + *len, room - *len, (off_t)*len);
        if (got < 0)
            return error_errno(err, "read the journal");
        if (got == 0)
            return true;
        *len += (size_t)got;
    }
    return error_set(err, ERR_TOO_LARGE, "the journal is over %zu bytes", room);
}

bool journal_open(int dir_fd, struct journal *journal, struct journal_list *list, struct error *err)
{
    AUTO_FD int fd = openat(dir_fd, "journal", O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);

    *journal = (struct journal){.fd = -1};
    *list = (struct journal_list){.next_seq = 1};
    if (fd < 0)
        return errno == ENOENT || error_errno(err, "open the journal");

    AUTO_FREE char *text = alloc(FILE_MAX_BYTES);
    size_t len;
    if (!text_read(fd, text, FILE_MAX_BYTES, &len, err) ||
        !journal_parse((struct str){text, len}, list, err))
        return false;
    if (list->torn && ftruncate(fd, (off_t)list->good_bytes) < 0)
        return error_errno(err, "cut the torn line off the journal");
    *journal = (struct journal){.fd = take_fd(&fd), .next_seq = list->next_seq};
    return true;
}

void journal_finish(struct journal *journal)
{
    auto_close(&journal->fd);
    journal->fd = -1;
}

static void die_when_told(void)
{
    if (journal_die_at == 1)
        (void)raise(SIGKILL);
    if (journal_die_at > 0)
        journal_die_at--;
}

static bool line_write(struct journal *journal, enum verb verb, const struct resource *resource,
                       struct error *err)
{
    char body[LINE_MAX_BYTES], name[JOURNAL_NAME_MAX * 3], identity[JOURNAL_IDENTITY_MAX * 3] = "";
    char line[LINE_MAX_BYTES + 16];

    die_when_told();
    if (!name_escape(resource->name, name, sizeof(name)) ||
        !name_escape(resource->identity, identity, sizeof(identity)))
        return error_set(err, ERR_INTERNAL, "a name is too long for the journal");
    int body_len =
        snprintf(body, sizeof(body), "%u %s %s %s%s%s", journal->next_seq, verb_names[verb],
                 kind_names[resource->kind], name, identity[0] ? " " : "", identity);
    int len = snprintf(line, sizeof(line), "%08x %s\n",
                       crc32c(0, (struct str){body, (size_t)body_len}), body);
    if (write(journal->fd, line, (size_t)len) != len)
        return error_errno(err, "write the journal");
    journal->next_seq++;
    return true;
}

static bool resource_write(struct journal *journal, enum verb verb, enum resource_kind kind,
                           const char *name, const char *identity, struct error *err)
{
    struct resource resource = {.kind = kind};

    if ((size_t)snprintf(resource.name, sizeof(resource.name), "%s", name) >=
            sizeof(resource.name) ||
        (size_t)snprintf(resource.identity, sizeof(resource.identity), "%s", identity) >=
            sizeof(resource.identity))
        return error_set(err, ERR_INTERNAL, "too long for the journal: %.64s…", name);
    return line_write(journal, verb, &resource, err);
}

bool journal_intent(struct journal *journal, enum resource_kind kind, const char *name,
                    struct error *err)
{
    return resource_write(journal, VERB_INTENT, kind, name, "", err);
}

bool journal_sync(struct journal *journal, struct error *err)
{
    return fsync(journal->fd) == 0 || error_errno(err, "sync the journal");
}

bool journal_made(struct journal *journal, enum resource_kind kind, const char *name,
                  const char *identity, struct error *err)
{
    return resource_write(journal, VERB_MADE, kind, name, identity, err);
}

bool journal_gone(struct journal *journal, enum resource_kind kind, const char *name,
                  struct error *err)
{
    return resource_write(journal, VERB_GONE, kind, name, "", err);
}
