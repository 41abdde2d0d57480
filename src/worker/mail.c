#include "worker/mail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/worker.h"

enum {
    QUEUE_MESSAGES = 4096,
    QUEUE_BYTES = 32 * 1024 * 1024,
    EARLY_MESSAGES = 1024,
    EARLY_MS = 60 * 1000, /* after that its lease will not come here any more */
};

void mail_free(struct mail *mail)
{
    if (!mail)
        return;
    arena_finish(&mail->arena);
    free(mail);
}

void mail_drop(struct mail_queue *queue)
{
    while (queue->first) {
        struct mail *mail = queue->first;
        queue->first = mail->next;
        mail_free(mail);
    }
    *queue = (struct mail_queue){0};
}

/* Written and read again, into memory of its own: the one in hand dies with its answer. */
static struct mail *copy(const struct wire_message *message)
{
    AUTO(buf_finish) struct buf text = {.max = (size_t)2 * WIRE_JSON_MAX};
    struct json_writer writer = json_begin(&text);
    struct mail *mail = alloc(sizeof *mail);
    struct error err;

    *mail = (struct mail){.came_ms = time_boot_ms()};
    wire_write(&writer, NULL, wire_message_body_fields, message);
    if (json_end(&writer, &err) &&
        json_read(buf_str(&text), wire_message_body_fields, &mail->message, sizeof mail->message,
                  &mail->arena, &err)) {
        snprintf(mail->type, sizeof mail->type, "%.*s", (int)message->type.len, message->type.ptr);
        snprintf(mail->lease_id, sizeof mail->lease_id, "%.*s", (int)message->lease_id.len,
                 message->lease_id.ptr);
        return mail;
    }
    log_warn("message not understood", LOG_SLICE("type", message->type), LOG_ERR(&err));
    mail_free(mail);
    return NULL;
}

static bool append(struct mail_queue *queue, struct mail *mail, size_t most)
{
    size_t bytes = sizeof *mail + mail->message.data.len;

    if (queue->n >= most || queue->bytes + bytes > QUEUE_BYTES)
        return false;
    if (queue->last)
        queue->last->next = mail;
    else
        queue->first = mail;
    queue->last = mail;
    queue->n++;
    queue->bytes += bytes;
    return true;
}

static struct mail *take(struct mail_queue *queue)
{
    struct mail *mail = queue->first;

    if (!mail)
        return NULL;
    queue->first = mail->next;
    if (!queue->first)
        queue->last = NULL;
    queue->n--;
    queue->bytes -= sizeof *mail + mail->message.data.len;
    mail->next = NULL;
    return mail;
}

static void forget_late(struct mail_queue *early)
{
    while (early->first && time_boot_ms() - early->first->came_ms > EARLY_MS)
        mail_free(take(early));
}

void mail_post(struct lease_table *table, const struct wire_message *message)
{
    struct mail *mail = copy(message);

    if (!mail)
        return;
    pthread_mutex_lock(&table->lock);
    struct lease *lease = lease_find(table, str_of(mail->lease_id));
    forget_late(&table->early);
    bool is_kept = lease ? append(&lease->mail, mail, QUEUE_MESSAGES)
                         : append(&table->early, mail, EARLY_MESSAGES);
    if (lease && !is_kept)
        lease->has_lost_mail = true;
    if (lease && eventfd_write(lease->wake, 1) != 0)
        abort(); /* the counter cannot overflow: it is read whole */
    pthread_mutex_unlock(&table->lock);
    if (is_kept)
        return;
    log_warn("message lost: too many wait", LOG_STR("lease", mail->lease_id));
    mail_free(mail);
}

struct mail *mail_take(struct lease *lease)
{
    struct lease_table *table = &lease->worker->leases;

    pthread_mutex_lock(&table->lock);
    struct mail *mail = take(&lease->mail);
    pthread_mutex_unlock(&table->lock);
    return mail;
}

void mail_adopt(struct lease_table *table, struct lease *lease)
{
    struct mail_queue others = {0};
    struct mail *mail;

    while ((mail = take(&table->early))) {
        bool is_its = strcmp(mail->lease_id, lease->id) == 0;
        if (!append(is_its ? &lease->mail : &others, mail, QUEUE_MESSAGES))
            mail_free(mail);
    }
    table->early = others;
}
