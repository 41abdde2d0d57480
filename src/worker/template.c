#include "worker/template.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/own.h"
#include "engine/saved.h"
#include "worker/guest_state.h"
#include "worker/worker.h"

enum { WAKE_MS = 60 * 1000 };

struct template
{
    atomic_size_t holders; /* not under the lock: that is held as long as storing takes */
    struct saved_image image;
    uint8_t nonce[GUEST_NONCE_LEN];
    char *module; /* that its Node has imported, or NULL */
    pthread_mutex_t lock;
    char manifest[SHA256_HEX];      /* empty: not stored yet */
    struct template_chunks *chunks; /* NULL: not asked for yet */
};

bool template_make(struct guest *guest, const struct sandbox_spec *spec, struct template **template,
                   struct error *err)
{
    uint8_t nonce[GUEST_NONCE_LEN];
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    struct worker *worker = guest->worker;

    /* Answered by the adapter when it is at the gate and has nothing more to load. */
    if (!guest_reestablish_again(guest, err))
        return false;
    struct guest_save save;
    if (!guest_make_image(worker, spec, &image, err) ||
        !guest_pause(guest, PAUSE_TEMPLATE, nonce, err) ||
        !guest_save_begin(guest, &image, &save, err) || !guest_save_end(&save, err) ||
        !worker->engine->share(worker->host, &image, err))
        return false;
    *template = template_of(&image, nonce);
    if (guest_preloaded(guest))
        (*template)->module = alloc_text(guest_preloaded(guest));
    return true;
}

struct template *template_of(struct saved_image *image, const uint8_t nonce[GUEST_NONCE_LEN])
{
    struct template *made = alloc(sizeof *made);

    *made = (struct template){.holders = 1, .image = *image};
    *image = (struct saved_image)SAVED_IMAGE_NONE;
    memcpy(made->nonce, nonce, GUEST_NONCE_LEN);
    pthread_mutex_init(&made->lock, NULL);
    return made;
}

struct template *template_hold(struct template *template)
{
    if (template)
        atomic_fetch_add(&template->holders, 1);
    return template;
}

void template_drop(struct template *template)
{
    if (!template || atomic_fetch_sub(&template->holders, 1) > 1)
        return;
    template_chunks_destroy(template->chunks);
    saved_image_finish(&template->image);
    pthread_mutex_destroy(&template->lock);
    free(template->module);
    free(template);
}

bool template_is_idle(const struct template *template)
{
    return atomic_load(&template->holders) == 1;
}

int64_t template_size(const struct template *template)
{
    struct error err;
    int64_t bytes;

    /* Two descriptors that are open can be asked. */
    if (!saved_image_size(&template->image, &bytes, &err))
        abort();
    return bytes;
}

/* As of now: the copy is told what tells it from all others. */
static bool meet(struct guest *guest, bool has_network, struct error *err)
{
    return guest_meet(guest, guest->origin->nonce, err) &&
           guest_reestablish(guest, has_network, err);
}

bool template_copy(struct template *template, struct worker *worker,
                   const struct sandbox_spec *spec, const struct guest_listener *listener,
                   struct failure *failure, struct guest **guest, struct error *err)
{
    if (!guest_restore(worker, NULL, spec, &template->image, listener, failure, guest, err))
        return false;
    (*guest)->origin = template_hold(template);
    guest_set_preloaded(*guest, template->module);
    (*guest)->is_asleep = spec->is_asleep;
    return spec->is_asleep || meet(*guest, spec->network != NETWORK_OFF, err);
}

bool template_wake(struct guest *guest, bool has_network, struct error *err)
{
    if (!guest->is_asleep)
        return true;
    guest->is_asleep = false;
    if (!guest->worker->engine->wake(guest->instance, WAKE_MS, err))
        return guest_fail(guest, "restore", "boot_failed", err);
    return meet(guest, has_network, err);
}

bool template_manifest(struct template *template, struct run *run, char manifest[SHA256_HEX],
                       struct error *err)
{
    struct checkpoint_kept kept;

    pthread_mutex_lock(&template->lock);
    if (!template->manifest[0] && checkpoint_keep_base(run, &template->image, &kept, err))
        memcpy(template->manifest, kept.manifest, SHA256_HEX);
    memcpy(manifest, template->manifest, SHA256_HEX);
    pthread_mutex_unlock(&template->lock);
    return manifest[0];
}

bool template_is_stored_as(struct template *template, struct str manifest)
{
    if (pthread_mutex_trylock(&template->lock) != 0)
        return false;
    bool is_so = template->manifest[0] && str_equal(str_of(template->manifest), manifest);
    pthread_mutex_unlock(&template->lock);
    return is_so;
}

static bool make_chunks(struct template *template, struct run *run, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest manifest;

    return checkpoint_read_manifest(run, template->manifest, &arena, &manifest, err) &&
           template_chunks_make(&template->image, &manifest, CHECKPOINT_STREAM, &template->chunks,
                                err);
}

bool template_open_chunks(struct template *template, struct run *run,
                          const struct template_chunks **chunks, struct error *err)
{
    pthread_mutex_lock(&template->lock);
    bool fine = template->chunks || make_chunks(template, run, err);
    *chunks = template->chunks;
    pthread_mutex_unlock(&template->lock);
    return fine;
}

void template_forget_manifest(struct template *template)
{
    pthread_mutex_lock(&template->lock);
    template->manifest[0] = '\0';
    pthread_mutex_unlock(&template->lock);
}
