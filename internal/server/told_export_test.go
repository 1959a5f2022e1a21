package server

// WithoutFolders is withoutFolders.
var WithoutFolders = withoutFolders
