#version 460
#extension GL_GOOGLE_include_directive : require
#define THEN
#define NO_DOT
#include "members.glsl"
