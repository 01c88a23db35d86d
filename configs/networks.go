package configs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Networks is a list of networks of IP addresses.
type Networks []netip.Prefix

// Contain reports whether an address is in one of the networks.
func (n Networks) Contain(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(n, func(network netip.Prefix) bool { return network.Contains(address) })
}

// String is the list as UnmarshalText takes it.
func (n Networks) String() string {
	var texts []string
	for _, network := range n {
		texts = append(texts, network.String())
	}
	return strings.Join(texts, ",")
}

// MarshalText is String, for JSON and for both handlers of slog.
func (n Networks) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText takes networks in CIDR notation and single addresses, with commas between them.
func (n *Networks) UnmarshalText(text []byte) error {
	var networks Networks
	for item := range strings.SplitSeq(string(text), ",") {
		network, err := parseNetwork(strings.TrimSpace(item))
		if err != nil {
			return err
		}
		networks = append(networks, network)
	}
	*n = networks
	return nil
}

// parseNetwork refuses bits behind the mask: whoever wrote 10.0.0.1/8 meant either less or more.
func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil || network.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is not a network; write for example 10.0.0.0/8,192.168.1.7", text)
	case network != network.Masked():
		return netip.Prefix{}, fmt.Errorf("%q is an address within a network; write %s for the network", text, network.Masked())
	}
	return network, nil
}
