#include "worker/platform_archive.h"

#ifdef HAS_PLATFORM_ARCHIVE
#include "platform_header.h"

__asm__(".section .rodata\n"
        ".balign 16\n"
        ".global platform_archive\n"
        ".hidden platform_archive\n"
        "platform_archive:\n"
        ".incbin \"" PLATFORM_ARCHIVE "\"\n"
        "platform_archive_end:\n"
        ".byte 0\n"
        ".balign 8\n"
        ".global platform_archive_len\n"
        ".hidden platform_archive_len\n"
        "platform_archive_len:\n"
        ".quad platform_archive_end - platform_archive\n"
        ".previous\n");
#else
const char platform_archive[1] = {0};
const size_t platform_archive_len = 0;
#endif
