/* Manual pages out of the table of commands, in the man macros that groff and mandoc know. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/command.h"
#include "base/file.h"
#include "base/glyph.h"
#include "base/own.h"

#define PROGRAM "helmr"

enum { PATH_TEXT = 4096, NAME_TEXT = 128 };

/* The code point of one well-formed character. */
static unsigned code_of(struct str bytes)
{
    unsigned char first = (unsigned char)bytes.ptr[0];
    unsigned code = bytes.len == 1 ? first : first & (0x7Fu >> bytes.len);

    for (size_t i = 1; i < bytes.len; i++)
        code = code << 6 | ((unsigned char)bytes.ptr[i] & 0x3Fu);
    return code;
}

/* Nothing of the text is taken for a request or an escape. */
static void print_text(struct str text, FILE *out)
{
    struct glyph glyph;

    if (text.len && (text.ptr[0] == '.' || text.ptr[0] == '\''))
        fputs("\\&", out);
    while (glyph_next(&text, &glyph)) {
        char c = glyph.bytes.ptr[0];

        if (glyph.bytes.len > 1)
            fprintf(out, "\\[u%04X]", code_of(glyph.bytes));
        else if (c == '\\')
            fputs("\\e", out);
        else if (c == '-')
            fputs("\\-", out);
        else if (c == '\'')
            fputs("\\(aq", out);
        else if (c == '`')
            fputs("\\(ga", out);
        else if (c == '^')
            fputs("\\(ha", out);
        else if (c == '~')
            fputs("\\(ti", out);
        else
            putc(c, out);
    }
}

static void print_plain(const char *text, FILE *out)
{
    print_text(str_of(text), out);
}

/* "run list" as the name of its page: helmr-run-list. */
static void page_name(const struct command *command, char name[NAME_TEXT])
{
    snprintf(name, NAME_TEXT, PROGRAM "%s%s", command ? "-" : "", command ? command->name : "");
    for (char *at = name; *at; at++) {
        if (*at == ' ')
            *at = '-';
    }
}

static void print_title(const struct command *command, const char *version, FILE *out)
{
    char name[NAME_TEXT];

    page_name(command, name);
    fprintf(out, ".TH \"");
    for (const char *at = name; *at; at++)
        putc(toupper((unsigned char)*at), out);
    fprintf(out, "\" 1 \"\" \"" PROGRAM " %s\" \"Helmr\"\n.SH NAME\n", version);
    print_plain(name, out);
    fprintf(out, " \\- ");
}

/* Lines that begin with blanks are examples and stay as they are. */
static void print_help_text(const char *help, FILE *out)
{
    struct str rest = str_of(help), line;
    bool is_example = false;

    while (str_split(&rest, '\n', &line)) {
        bool indented = line.len > 1 && line.ptr[0] == ' ';

        if (indented != is_example && line.len)
            fprintf(out, indented ? ".RS 4\n.EX\n" : ".EE\n.RE\n");
        is_example = line.len ? indented : is_example;
        if (indented) {
            while (line.len && line.ptr[0] == ' ')
                line = (struct str){line.ptr + 1, line.len - 1};
        }
        if (!line.len && !is_example && rest.len)
            fprintf(out, ".PP\n");
        if (!line.len)
            continue;
        print_text(line, out);
        putc('\n', out);
    }
    if (is_example)
        fprintf(out, ".EE\n.RE\n");
}

static void print_options(const struct option *list, FILE *out)
{
    for (; list && list->name; list++) {
        fprintf(out, ".TP\n");
        if (list->letter)
            fprintf(out, "\\fB\\-%c\\fR, ", list->letter);
        fprintf(out, "\\fB\\-\\-");
        print_plain(list->name, out);
        fprintf(out, "\\fR");
        if (list->value) {
            fprintf(out, " \\fI");
            print_plain(list->value, out);
            fprintf(out, "\\fR");
        }
        putc('\n', out);
        print_plain(list->help, out);
        fprintf(out, "%s\n", list->kind == OPTION_LIST ? " May be repeated." : "");
    }
}

static void print_command(const struct command *command, const char *version, FILE *out)
{
    print_title(command, version, out);
    print_plain(command->summary, out);
    fprintf(out, "\n.SH SYNOPSIS\n.B " PROGRAM " %s\n[\\fIOPTIONS\\fR]", command->name);
    if (command->args) {
        putc(' ', out);
        print_plain(command->args, out);
    }
    putc('\n', out);
    if (command->help) {
        fprintf(out, ".SH DESCRIPTION\n");
        print_help_text(command->help, out);
    }
    fprintf(out, ".SH OPTIONS\n");
    print_options(command->options, out);
    print_options(command->common, out);
    fprintf(out, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint help.\n"
                 ".SH SEE ALSO\n.BR " PROGRAM " (1)\n");
}

static void print_overview(const struct command *table, size_t n, const char *version, FILE *out)
{
    print_title(NULL, version, out);
    fprintf(out,
            "a self\\-hosted runtime for coding agents\n"
            ".SH SYNOPSIS\n.B " PROGRAM "\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n"
            ".SH DESCRIPTION\n"
            "Options may stand before or after arguments; \\fB\\-\\-\\fR ends them.\n"
            "Each command has a page of its own, named with hyphens:\n"
            ".BR " PROGRAM "\\-run\\-list (1).\n"
            ".SH COMMANDS\n");
    for (size_t i = 0; i < n; i++) {
        if (table[i].internal)
            continue;
        fprintf(out, ".TP\n\\fB%s\\fR", table[i].name);
        if (table[i].args) {
            putc(' ', out);
            print_plain(table[i].args, out);
        }
        putc('\n', out);
        print_plain(table[i].summary, out);
        putc('\n', out);
    }
    fprintf(out, ".SH EXIT STATUS\n"
                 "0 for success, 1 for any error, which is told on standard error, 130 when\n"
                 "interrupted.\n");
}

void command_print_man(const struct command *table, size_t n, const struct command *command,
                       const char *version, FILE *out)
{
    if (command)
        print_command(command, version, out);
    else
        print_overview(table, n, version, out);
}

static bool write_page(const struct command *table, size_t n, const struct command *command,
                       const char *version, const char *directory, struct error *err)
{
    char path[PATH_TEXT], name[NAME_TEXT];
    AUTO_FREE char *text = NULL;
    size_t len = 0;
    FILE *page = open_memstream(&text, &len);

    if (!page)
        return error_errno(err, "open_memstream");
    command_print_man(table, n, command, version, page);
    if (fclose(page) != 0)
        return error_errno(err, "a manual page");
    page_name(command, name);
    snprintf(path, sizeof path, "%s/%s.1", directory, name);
    return file_publish(path, (struct str){text, len}, 0644, err);
}

bool command_write_man(const struct command *table, size_t n, const char *version,
                       const char *directory, struct error *err)
{
    if (!directory_make(directory, 0755, err) ||
        !write_page(table, n, NULL, version, directory, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!table[i].internal && !write_page(table, n, &table[i], version, directory, err))
            return false;
    }
    return true;
}
