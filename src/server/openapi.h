/* docs/openapi.yaml as JSON, put into the binary by the build. */
#pragma once

#include "base/str.h"

struct str openapi_document(void);
