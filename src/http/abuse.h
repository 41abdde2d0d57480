/* The abuse list: what we refuse and some servers let in, for the tests of the parser and of
 * the server. A row is added for every new way we hear of, and none is ever taken out.
 */
#pragma once

#include "base/str.h"

enum { ABUSE_BODY_MAX = 64 };

#define GET     "GET /x HTTP/1.1\r\nHost: h\r\n"
#define POST    "POST /x HTTP/1.1\r\nHost: h\r\n"
#define LENGTH  "Content-Length: "
#define CODING  "Transfer-Encoding: "
#define UPGRADE "Connection: Upgrade\r\nUpgrade: "
#define END     "\r\n\r\n"
#define CHUNKED POST CODING "chunked" END

static const struct {
    const char *what;
    int want;
    struct str bytes;
} abuse[] = {
    {"length and chunked",          400, STR(POST LENGTH "4\r\n" CODING "chunked" END)               },
    {"chunked and length",          400, STR(POST CODING "chunked\r\n" LENGTH "4" END)               },
    {"two lengths, different",      400, STR(POST LENGTH "4\r\n" LENGTH "5" END "abcde")             },
    {"two lengths, equal",          400, STR(POST LENGTH "4\r\n" LENGTH "4" END "abcd")              },
    {"length with a sign",          400, STR(POST LENGTH "+4" END "abcd")                            },
    {"length list",                 400, STR(POST LENGTH "4, 4" END "abcd")                          },
    {"length empty",                400, STR(POST LENGTH END)                                        },
    {"length past 64 bits",         400, STR(POST LENGTH "99999999999999999999" END)                 },
    {"length over the limit",       413, STR(POST LENGTH "65" END)                                   },
    {"unknown coding",              400, STR(POST CODING "xchunked" END "0" END)                     },
    {"coding after chunked",        400, STR(POST CODING "chunked, identity" END "0" END)            },
    {"coding before chunked",       501, STR(POST CODING "gzip, chunked" END "0" END)                },
    {"coding on 1.0",               400, STR("POST /x HTTP/1.0\r\nHost: h\r\n" CODING "chunked" END) },
    {"obs-fold",                    400, STR(GET "X-A: 1\r\n folded" END)                            },
    {"obs-fold before a coding",    400, STR(POST CODING "\r\n chunked" END)                         },
    {"white space first",           400, STR("GET /x HTTP/1.1\r\n Host: h" END)                      },
    {"space before the colon",      400, STR(POST "Content-Length : 4" END "abcd")                   },
    {"bare LF everywhere",          400, STR("GET /x HTTP/1.1\nHost: h\n\n")                         },
    {"bare LF at a header",         400, STR("GET /x HTTP/1.1\r\nHost: h\nX: y" END)                 },
    {"bare LF at the end",          400, STR(GET "\n")                                               },
    {"bare CR in a value",          400, STR(GET "X-A: a\rb" END)                                    },
    {"bare CR at the end",          400, STR(GET "\rX")                                              },
    {"NUL in a value",              400, STR(GET "X-A: a\0b" END)                                    },
    {"header without a name",       400, STR(GET ": v" END)                                          },
    {"bad header name",             400, STR(GET "A(b: v" END)                                       },
    {"no Host",                     400, STR("GET /x HTTP/1.1" END)                                  },
    {"two Hosts",                   400, STR(GET "Host: b" END)                                      },
    {"chunk size not hex",          400, STR(CHUNKED "zz\r\n")                                       },
    {"chunk size with 0x",          400, STR(CHUNKED "0x4\r\nabcd\r\n0" END)                         },
    {"chunk size with a space",     400, STR(CHUNKED "4 \r\nabcd\r\n0" END)                          },
    {"chunk size past 64 bits",     400, STR(CHUNKED "ffffffffffffffffff\r\n")                       },
    {"chunk without its CRLF",      400, STR(CHUNKED "4\r\nabcdXX0" END)                             },
    {"chunk with bare LF",          400, STR(CHUNKED "4\nabcd\n0\n\n")                               },
    {"chunk extension",             400, STR(CHUNKED "4;a=b\r\nabcd\r\n0" END)                       },
    {"trailer",                     400, STR(CHUNKED "0\r\n" LENGTH "5" END)                         },
    {"version 1.9",                 400, STR("GET /x HTTP/1.9\r\nHost: h" END)                       },
    {"version 2.0",                 505, STR("GET /x HTTP/2.0\r\nHost: h" END)                       },
    {"no version",                  505, STR("GET /x\r\nHost: h" END)                                },
    {"control byte in the method",  400, STR("GE\1T /x HTTP/1.1\r\nHost: h" END)                     },
    {"method we do not serve",      501, STR("TRACE /x HTTP/1.1\r\nHost: h" END)                     },
    {"CONNECT",                     501, STR("CONNECT h:1 HTTP/1.1\r\nHost: h" END)                  },
    {"HTTP/2 preface",              505, STR("PRI * HTTP/2.0" END "SM" END)                          },
    {"two spaces",                  400, STR("GET  /x HTTP/1.1\r\nHost: h" END)                      },
    {"tab in the target",           400, STR("GET /x\ty HTTP/1.1\r\nHost: h" END)                    },
    {"8-bit target",                400, STR("GET /x\xff HTTP/1.1\r\nHost: h" END)                   },
    {"fragment in the target",      400, STR("GET /x#y HTTP/1.1\r\nHost: h" END)                     },
    {"absolute target",             400, STR("GET http://h/x HTTP/1.1\r\nHost: h" END)               },
    {"empty line first",            400, STR("\r\n" GET "\r\n")                                      },
    {"upgrade with a body",         400, STR(GET UPGRADE "websocket\r\n" LENGTH "4" END)             },
    {"upgrade with length 0",       400, STR(GET UPGRADE "websocket\r\n" LENGTH "0" END)             },
    {"two codings",                 400, STR(POST CODING "chunked\r\n" CODING "chunked" END "0" END) },
    {"two codings, one unknown",    400, STR(POST CODING "chunked\r\n" CODING "identity" END "0" END)},
    {"coding hidden by a tab",      400, STR(POST CODING "\vchunked" END "0" END)                    },
    {"coding with a comma",         400, STR(POST CODING "chunked," END "0" END)                     },
    {"coding quoted",               400, STR(POST CODING "\"chunked\"" END "0" END)                  },
    {"coding name with a blank",    400, STR(POST "Transfer-Encoding : chunked" END "0" END)         },
    {"coding name underscored",     400, STR(POST "Transfer Encoding: chunked" END "0" END)          },
    {"length hexadecimal",          400, STR(POST LENGTH "0x4" END "abcd")                           },
    {"length negative",             400, STR(POST LENGTH "-4" END "abcd")                            },
    {"length with a blank inside",  400, STR(POST LENGTH "4 4" END "abcd")                           },
    {"length with NUL",             400, STR(POST LENGTH "4\0" END "abcd")                           },
    {"chunk size negative",         400, STR(CHUNKED "-1\r\n")                                       },
    {"chunk size empty",            400, STR(CHUNKED "\r\nabcd\r\n0" END)                            },
    {"chunk size with CR only",     400, STR(CHUNKED "4\rabcd\r\n0" END)                             },
    {"chunk longer than said",      400, STR(CHUNKED "3\r\nabcd\r\n0" END)                           },
    {"chunks over the limit",       413,
     STR(CHUNKED "41\r\n"
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                 "aaaaaaaaa\r\n0" END)                                                               },
    {"last chunk without CRLF",     400, STR(CHUNKED "4\r\nabcd\r\n0\r\nGET")                        },
    {"NUL in a name",               400, STR(GET "X\0-A: v" END)                                     },
    {"NUL in the target",           400, STR("GET /x\0 HTTP/1.1\r\nHost: h" END)                     },
    {"DEL in a value",              400, STR(GET "X-A: a\x7f" END)                                   },
    {"LF before CR",                400, STR("GET /x HTTP/1.1\n\rHost: h" END)                       },
    {"line without a colon",        400, STR(GET "nothing" END)                                      },
    {"asterisk target",             400, STR("OPTIONS * HTTP/1.1\r\nHost: h" END)                    },
    {"target without a slash",      400, STR("GET x HTTP/1.1\r\nHost: h" END)                        },
    {"no target",                   400, STR("GET HTTP/1.1\r\nHost: h" END)                          },
    {"lower-case version",          400, STR("GET /x http/1.1\r\nHost: h" END)                       },
    {"something after the version", 400, STR("GET /x HTTP/1.1 \r\nHost: h" END)                      },
    {"lower-case method",           400, STR("get /x HTTP/1.1\r\nHost: h" END)                       },
    {"TLS hello",                   400, STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n") },
};
