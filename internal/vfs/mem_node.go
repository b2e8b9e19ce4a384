package vfs

import (
	"maps"
	"path/filepath"
	"slices"
)

// memChunkBytes is the granule in which file content is allocated; chunks never
// written stay nil, so a large preallocated file costs little.
const memChunkBytes = 16 << 10

// MemNode is the content of a file in memory, as an inode is. Tests that model a disk
// take nodes out of one MemFS and add their copies to another.
type MemNode struct {
	size   int64    // Guarded by MemFS.mu, like the rest
	chunks [][]byte // nil chunks read as zeros
	names  int
	opens  int
	locks  []memRange
}

// memRange is a locked range of bytes of an open file.
type memRange struct {
	by     *memFile
	off, n int64
}

// Clone returns a copy of the content that has neither names nor handles. Requires: no
// file of the node is written during the call.
func (n *MemNode) Clone() *MemNode {
	c := &MemNode{size: n.size, chunks: make([][]byte, len(n.chunks))}
	for i, chunk := range n.chunks {
		c.chunks[i] = slices.Clone(chunk)
	}
	return c
}

// Nodes returns the node of every path, nil for a directory. Two names of one file have
// the same node.
func (m *MemFS) Nodes() map[string]*MemNode {
	m.mu.RLock()
	defer m.mu.RUnlock()
	nodes := maps.Clone(m.files)
	for path := range m.dirs {
		if !isRoot(path) {
			nodes[path] = nil
		}
	}
	return nodes
}

// AddNode makes name, which must be free and in an existing directory, a name of n.
// Requires: n belongs to no other MemFS.
func (m *MemFS) AddNode(name string, n *MemNode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.names == 0 && n.opens == 0 {
		m.used += n.size
	}
	n.names++
	m.linkLocked(filepath.Clean(name), n)
}
