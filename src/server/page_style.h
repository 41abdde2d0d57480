/* The style sheet of the server's own pages: both colour schemes, one column on a phone. */
#pragma once

#define PAGE_STYLE                                                                               \
    ":root{color-scheme:light dark;--ink:#1b1f24;--dim:#636c76;--line:#d8dee4;--paper:#fff;"     \
    "--soft:#f3f5f7;--accent:#0b62c4;--good:#1a7f37;--bad:#c22626;--wait:#8a5a00}\n"             \
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--dim:#98a2ad;--line:#30363d;"        \
    "--paper:#0f1317;--soft:#181d23;--accent:#6cb1ff;--good:#4cc36a;--bad:#ff7b72;"              \
    "--wait:#e0b040}}\n"                                                                         \
    "*{box-sizing:border-box}\n"                                                                 \
    "body{margin:0;background:var(--paper);color:var(--ink);"                                    \
    "font:15px/1.5 system-ui,sans-serif}\n"                                                      \
    "header{padding:.8rem 1rem;border-bottom:1px solid var(--line);font-weight:600}\n"           \
    "header a{display:inline-flex;align-items:center;gap:.5rem;color:inherit;"                   \
    "text-decoration:none}\n"                                                                    \
    ":focus-visible{outline:2px solid var(--accent);outline-offset:2px}\n"                       \
    "main{max-width:64rem;margin:0 auto;padding:1rem}\n"                                         \
    "a{color:var(--accent)}\n"                                                                   \
    "h1{font-size:1.4rem;margin:.6rem 0}h2{font-size:1rem;margin:1.4rem 0 .4rem}\n"              \
    ".scope,.note,time{color:var(--dim)}\n"                                                      \
    "table{width:100%;border-collapse:collapse}\n"                                               \
    "th,td{padding:.45rem .6rem .45rem 0;text-align:left;border-bottom:1px solid var(--line);"   \
    "white-space:nowrap}\n"                                                                      \
    "th{font-weight:500;color:var(--dim)}td{font-variant-numeric:tabular-nums}\n"                \
    "code,pre{font:13px/1.5 ui-monospace,monospace}\n"                                           \
    "pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.8rem;"   \
    "overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;margin:0}\n"                    \
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}\n"                    \
    "dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\n"                                  \
    ".status{color:var(--dim);font-weight:600}h1 .status{font-size:1rem}\n"                      \
    ".running,.queued{color:var(--accent)}.succeeded{color:var(--good)}\n"                       \
    ".failed,.stderr{color:var(--bad)}.waiting{color:var(--wait)}\n"                             \
    "button{font:inherit;padding:.5rem 1rem;border:0;border-radius:6px;cursor:pointer;"          \
    "background:var(--accent);color:var(--paper)}\n"                                             \
    "form{max-width:24rem}label{display:block;margin:.7rem 0;color:var(--dim)}\n"                \
    ".enter{max-width:26rem;margin:min(12vh,7rem) auto 2rem;padding:1.6rem 2rem;"                \
    "border:1px solid var(--line);border-radius:12px}.enter h1{margin-top:0}\n"                  \
    ".enter form{max-width:none}.enter button{width:100%;min-height:2.75rem;font-weight:550;"    \
    "margin:.8rem 0 0}.enter .other{background:none;color:var(--ink);border:1px solid "          \
    "var(--line)}\n"                                                                             \
    ".enter label{font-weight:550;color:var(--ink)}.enter input{margin-top:.3rem;"               \
    "background:var(--paper);font-weight:400}.enter p{overflow-wrap:anywhere}\n"                 \
    ".box{padding:.6rem .8rem;border:1px solid var(--bad);border-radius:8px}\n"                  \
    "@media(max-width:40rem){.enter{margin:1rem 0;padding:0;border:0}}\n"                        \
    ".answer{max-width:32rem}.answer button{width:100%;min-height:2.75rem;margin:.3rem 0}\n"     \
    ".answer .other{background:var(--soft);color:var(--ink);border:1px solid var(--line)}\n"     \
    "button:disabled{opacity:.5}details{margin:1rem 0}summary{cursor:pointer;padding:.6rem 0}\n" \
    "[hidden]{display:none!important}#prompt{white-space:pre-wrap;overflow-wrap:anywhere}\n"     \
    "textarea,input{display:block;width:100%;font:inherit;padding:.5rem;border:1px solid "       \
    "var(--line);"                                                                               \
    "border-radius:6px;background:var(--soft);color:var(--ink)}button{margin:.7rem 0}\n"         \
    "@media(max-width:40rem){thead{display:none}tr{display:grid;grid-template-columns:1fr auto;" \
    "padding:.5rem 0;border-bottom:1px solid var(--line)}td{border:0;padding:.1rem 0}}\n"
