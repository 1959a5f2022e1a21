module github.com/powerinfer-go/powerinfer

go 1.26
