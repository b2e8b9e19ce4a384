package keycodec

import (
	"fmt"
	"net/netip"
)

// Format: an address is its family, 04 or 06, and its 4 or 16 bytes. A prefix is the same
// with the bits outside of it 0, and one more byte: its length in bits. So IPv4 sorts
// before IPv6, and a prefix right before the prefixes inside it that start where it does.
//
// IPv4 addresses mapped into IPv6 (::ffff:1.2.3.4) are IPv6; Addr.Unmap makes them IPv4.

// On disk: the families.
const (
	familyIPv4 = 0x04
	familyIPv6 = 0x06
)

// AppendIP appends the ordered encoding of a, 5 or 17 bytes. It fails, with dst as it was,
// if a is the zero Addr or has a zone, which has no meaning on another host.
func AppendIP(dst []byte, a netip.Addr) ([]byte, error) {
	switch {
	case !a.IsValid():
		return dst, fmt.Errorf("keycodec: the zero netip.Addr is no IP address")
	case a.Zone() != "":
		return dst, fmt.Errorf("keycodec: the IP address %s has a zone", a)
	}
	return appendIP(dst, a), nil
}

func appendIP(dst []byte, a netip.Addr) []byte {
	if a.Is4() {
		b := a.As4()
		return append(append(dst, familyIPv4), b[:]...)
	}
	b := a.As16()
	return append(append(dst, familyIPv6), b[:]...)
}

// DecodeIP reads the IP address at the start of b and returns what follows it.
func DecodeIP(b []byte) (a netip.Addr, rest []byte, err error) {
	n, err := ipLen(b, 0, "IP address")
	if err != nil {
		return netip.Addr{}, nil, err
	}
	a, _ = netip.AddrFromSlice(b[1:n])
	return a, b[n:], nil
}

// AppendIPPrefix appends the ordered encoding of p, 6 or 18 bytes. It fails, with dst as
// it was, if p is not valid or has bits after its length: see netip.Prefix.Masked.
func AppendIPPrefix(dst []byte, p netip.Prefix) ([]byte, error) {
	switch {
	case !p.IsValid():
		return dst, fmt.Errorf("keycodec: %s is no IP prefix", p)
	case p != p.Masked():
		return dst, fmt.Errorf("keycodec: the IP prefix %s has bits after its length, as %s "+
			"has not", p, p.Masked())
	}
	return append(appendIP(dst, p.Addr()), byte(p.Bits())), nil
}

// DecodeIPPrefix reads the IP prefix at the start of b and returns what follows it.
func DecodeIPPrefix(b []byte) (p netip.Prefix, rest []byte, err error) {
	const what = "IP prefix"
	n, err := ipLen(b, 0, what)
	if err != nil {
		return netip.Prefix{}, nil, err
	}
	if n == len(b) {
		return netip.Prefix{}, nil, truncated(what, n+1, n)
	}
	a, _ := netip.AddrFromSlice(b[1:n])
	p = netip.PrefixFrom(a, int(b[n]))
	if !p.IsValid() {
		return netip.Prefix{}, nil, damaged(what, n, "a length in bits", b[n])
	}
	if p != p.Masked() {
		return netip.Prefix{}, nil, damaged(what, 1, "zero bits after the prefix", p)
	}
	return p, b[n+1:], nil
}

// IPRange returns the first and the last address of a prefix, both inclusive: the bounds
// of a range of addresses. Requires: p is valid.
func IPRange(p netip.Prefix) (first, last netip.Addr) {
	first = p.Masked().Addr()
	b := first.AsSlice()
	for i := range b {
		if keep := p.Bits() - 8*i; keep < 8 {
			b[i] |= 0xff >> max(keep, 0)
		}
	}
	last, _ = netip.AddrFromSlice(b)
	return first, last
}

// ipLen returns the length of the address at the start of b, its family included.
func ipLen(b []byte, mask byte, what string) (int, error) {
	if len(b) == 0 {
		return 0, truncated(what, 5, 0)
	}
	n := 0
	switch b[0] ^ mask {
	case familyIPv4:
		n = 5
	case familyIPv6:
		n = 17
	default:
		return 0, damaged(what, 0, "family 04 or 06", hexByte(b[0]))
	}
	if len(b) < n {
		return 0, truncated(what, n, len(b))
	}
	return n, nil
}
