#!/usr/bin/env node
// Releases of Node that are too old have to read this file as well: no import, no const, no template.
var oldest = [20, 19]
var here = process.versions.node.split('.').map(Number)

if (here[0] < oldest[0] || (here[0] === oldest[0] && here[1] < oldest[1])) {
  console.error('sluice needs Node ' + oldest.join('.') + ' or newer; this is Node ' + process.versions.node)
  process.exit(2)
} else {
  void import('./launch.mjs')
}
