/*
 * Rendezvous hashing with weights (Thaler and Ravishankar 1998; weights by the logarithm, as Schindelhauer and Schomaker
 * 2005). Each pair of a key and a server has a distance of its own, and the key belongs to the nearest server. A server that
 * comes takes only the keys that are nearest to it, one that goes leaves each of its keys to the next in the order of that key.
 */

const RANGE = 2 ** 32

/** A hash of the text: 32 bits, unsigned. */
export function hashOfText(text: string): number {
  // FNV-1a over the units of the text.
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return mixed(hash)
}

/** How far a server is from a key, both by `hashOfText`: above 0. Over all keys, the nearest is each server in proportion to its weight. */
export function distance(key: number, server: number, weight: number): number {
  const point = mixed(mixed(key ^ server) + server)
  return -Math.log((point + 0.5) / RANGE) / weight
}

/** The last step of MurmurHash3: each bit of the answer depends on each bit of the number. */
function mixed(number: number): number {
  let bits = number
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
