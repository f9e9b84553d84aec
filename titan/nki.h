#pragma once

/// What a kernel includes:
///
///   #include <titan/nki.h>
///   namespace nl = titan::nki::language;
///   namespace nisa = titan::nki::isa;

#include "titan/nki/isa.h"
#include "titan/nki/kernel.h"
#include "titan/nki/language.h"
