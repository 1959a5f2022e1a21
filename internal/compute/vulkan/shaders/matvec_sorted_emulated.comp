#version 460
#extension GL_GOOGLE_include_directive : require
#define NO_DOT
#define BY_EXPERT
#define SORTED
#include "matvec.glsl"
