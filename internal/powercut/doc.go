// Package powercut holds tests on real file systems: power cuts by the shutdown ioctl of
// ext4 and XFS, a device that fails writes, a disk that is full. They need root and Linux;
// `make powercut` runs them, and on other systems or as another user they are skipped.
package powercut
