package balance

import (
	"math"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// Places, with their distance from Berlin by published tables.
var (
	berlin    = tandem.Position{Latitude: 52.52, Longitude: 13.405}
	potsdam   = tandem.Position{Latitude: 52.4, Longitude: 13.066}    // 27 km
	paris     = tandem.Position{Latitude: 48.8566, Longitude: 2.3522} // 878 km
	tokyo     = tandem.Position{Latitude: 35.6895, Longitude: 139.6917}
	suva      = tandem.Position{Latitude: -18.14, Longitude: 178.44}  // west of the date line
	apia      = tandem.Position{Latitude: -13.83, Longitude: -171.77} // and east of it
	northPole = tandem.Position{Latitude: 90}
)

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		from, to tandem.Position
		want     float64 // km
	}{
		{berlin, berlin, 0},
		{berlin, potsdam, 27},
		{berlin, paris, 878},
		{berlin, tokyo, 8918},
		{suva, apia, 1150},
		{northPole, tandem.Position{Latitude: -90, Longitude: 77}, 20_015},
		{northPole, tandem.Position{Latitude: 90, Longitude: 180}, 0},
	} {
		for _, d := range []float64{
			distance(tc.from, &Node{Instance: tandem.Instance{Position: &tc.to}}),
			distance(tc.to, &Node{Instance: tandem.Instance{Position: &tc.from}}),
		} {
			if math.Abs(d-tc.want) > 1+tc.want/100 {
				t.Errorf("%v to %v: %.0f km, want %.0f", tc.from, tc.to, d, tc.want)
			}
		}
	}
}

// around returns nodes in Berlin, near it, far away, and without a position.
func around() []*Node {
	nodes := tagged("tokyo", "nowhere1", "paris", "potsdam", "berlin", "nowhere2")
	for id, place := range map[int]tandem.Position{0: tokyo, 2: paris, 3: potsdam, 4: berlin} {
		nodes[id].Instance.Position = &place
	}
	return nodes
}

func TestClosest(t *testing.T) {
	nan := tandem.Position{Latitude: math.NaN()}
	for _, tc := range []struct {
		from tandem.Position
		down string
		want string
	}{
		{berlin, "", "berlin potsdam"},
		{berlin, "berlin", "potsdam"},
		{berlin, "berlin potsdam", "paris"},
		{berlin, "berlin potsdam paris", "tokyo"},
		{berlin, "berlin potsdam paris tokyo", "nowhere1 nowhere2"},
		{tokyo, "", "tokyo"},
		{tokyo, "tokyo", "berlin potsdam"}, // 8,918 and 8,942 km
		{nan, "paris", "berlin nowhere1 nowhere2 potsdam tokyo"},
		{tandem.Position{Latitude: 91}, "", "berlin nowhere1 nowhere2 paris potsdam tokyo"},
	} {
		usable := func(n *Node) bool { return !strings.Contains(tc.down, n.Instance.ID) }
		if got := whoGets(Closest(tc.from, Random()).Build(around()), nil, usable); got != tc.want {
			t.Errorf("from %v without %q: %s, want %s", tc.from, tc.down, got, tc.want)
		}
	}
}

func TestClosestNarrows(t *testing.T) {
	var list []tandem.Instance
	for _, n := range around() {
		list = append(list, n.Instance)
	}
	if left := Closest(berlin, Subset(1, "me", P2C())).Needs().Narrow(list); len(left) != 4 { // here, Paris, Tokyo, nowhere
		t.Errorf("left: %v", left)
	}
}
