// What the tests' clients call. After a change, in this folder (Debian's
// thrift-compiler 0.17.0 made what is here):
//
//	thrift -r --out . --gen go:package_prefix=github.com/tandem-rpc/tandem/protocol/thrift/testdata/,skip_remote desk.thrift
//	gofmt -w desk

namespace go desk

enum Kind {
  PLAIN = 1,
  RARE = 7,
}

typedef i64 Stamp

struct Paper {
  1: i32 number,
  2: string title,
  3: optional string note,
  4: Kind kind,
  5: binary seal,
  6: list<string> tags,
  7: set<i32> pages,
  8: map<string, i64> sums,
  9: optional Paper answers,
  10: bool signed,
  11: i8 copies,
  12: i16 year,
  13: double weight,
  14: Stamp filed,
}

exception Missing {
  1: i32 number,
  2: string where,
}

exception Locked {
  1: string key,
}

service Desk {
  i32 add(1: i32 a, 2: i32 b),
  // The numbers of parameters and exceptions have gaps, as they get over the years.
  i64 divide(2: i64 a, 4: i64 b) throws (1: Missing missing, 3: Locked locked),
  Paper mirror(1: Paper paper),
  Kind kind_of(1: Paper paper),
  set<i32> pages(1: Paper paper),
  list<Paper> copies(1: Paper paper, 2: i32 count),
  map<string, Paper> by_title(1: list<Paper> papers),
  binary blob(1: binary data),
  void check(1: i32 number) throws (1: Missing missing, 2: Locked locked),
  void fail(1: string how),
  oneway void note(1: string text),
  string who(),
  void ping(),
}
