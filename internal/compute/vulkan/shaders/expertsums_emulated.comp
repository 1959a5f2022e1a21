#version 460
#extension GL_GOOGLE_include_directive : require
#define NO_DOT
#include "expertsums.glsl"
