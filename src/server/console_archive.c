#include "server/console_archive.h"

#ifdef HAS_CONSOLE_ARCHIVE
#include "console_header.h"

__asm__(".section .rodata\n"
        ".balign 16\n"
        ".global console_archive\n"
        ".hidden console_archive\n"
        "console_archive:\n"
        ".incbin \"" CONSOLE_ARCHIVE "\"\n"
        "console_archive_end:\n"
        ".byte 0\n"
        ".balign 8\n"
        ".global console_archive_len\n"
        ".hidden console_archive_len\n"
        "console_archive_len:\n"
        ".quad console_archive_end - console_archive\n"
        ".previous\n");
#else
const char console_archive[1] = {0};
const size_t console_archive_len = 0;
#endif
