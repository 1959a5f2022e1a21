package convert

// SentencePieceModel is sentencePieceModel for tests that import packages above this one.
var SentencePieceModel = sentencePieceModel
