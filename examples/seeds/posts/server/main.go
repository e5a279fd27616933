// Server is a Posts service for posts/client: the original one does not exist any more.
package main

import (
	"fmt"
	"time"

	"gopkg.in/mgo.v2/bson"

	"github.com/tandem-rpc/tandem/compat/rpcx"
)

type Args struct {
	PostType string `msg:"posttype"`
}

type Reply struct {
	Posts []Post `msg:"posts"`
}

type Post struct {
	PostID      bson.ObjectId `json:"id" xml:"id" bson:"_id,omitempty"`
	PostType    string        `json:"ptype" xml:"ptype" bson:"ptype,omitempty"`
	Title       string        `json:"title" xml:"title" bson:"title"`
	URL         string        `json:"url" xml:"url" bson:"url"`
	Domain      string        `json:"domain" xml:"domain" bson:"domain"`
	ShortURL    string        `json:"surl" xml:"surl" bson:"surl"`
	Description string        `json:"desc" xml:"desc" bson:"desc"`
	LikeCount   int           `json:"like" xml:"like" bson:"like"`
	ImageURL    string        `json:"imgurl" xml:"imgurl" bson:"imgurl"`
	RecommendBy string        `json:"-" xml:"-" bson:"-"`
	Tags        string        `json:"tags" xml:"tags" bson:"tags"`
	State       int           `json:"-" xml:"-" bson:"-"`
	Timestamp   time.Time     `json:"ts" xml:"timestamp" bson:"ts"`
}

// Posts has two posts.
type Posts struct{}

// Query returns the posts of a type.
func (Posts) Query(args *Args, reply *Reply) error {
	for _, p := range []Post{
		{
			PostID: bson.ObjectIdHex("57da0c5e2d3f1c0a1b2c3d4e"), PostType: "golang", Title: "Go 1.7", URL: "https://blog.golang.org/go1.7",
			Domain: "blog.golang.org", LikeCount: 17, RecommendBy: "nobody", State: 1, Timestamp: time.Date(2016, 9, 15, 8, 0, 0, 0, time.UTC),
		},
		{PostID: bson.ObjectIdHex("57da0c5e2d3f1c0a1b2c3d4f"), PostType: "java", Title: "Java 9", Domain: "example.com"},
	} {
		if p.PostType == args.PostType {
			reply.Posts = append(reply.Posts, p)
		}
	}
	return nil
}

func main() {
	server := rpcx.NewServer()
	if err := server.RegisterName("Posts", Posts{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Serve("tcp", "127.0.0.1:8972"))
}
