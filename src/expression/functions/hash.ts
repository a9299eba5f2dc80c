import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { FunctionDefinition } from '../function-definition.js'
import { failed } from './bounds.js'
import { crc64, xxhash64 } from './checksum.js'

type Digest = (text: string) => Buffer

const cryptographic =
  (algorithm: string): Digest =>
  (text) =>
    createHash(algorithm).update(text, 'utf8').digest()

const digests: Readonly<Record<string, Digest>> = {
  crc32: (text) => {
    const bytes = Buffer.allocUnsafe(4)
    bytes.writeUInt32BE(crc32(text))
    return bytes
  },
  crc64: (text) => crc64(Buffer.from(text)),
  md5: cryptographic('md5'),
  sha1: cryptographic('sha1'),
  sha256: cryptographic('sha256'),
  sha512: cryptographic('sha512'),
  xxhash64: (text) => xxhash64(Buffer.from(text))
}

function digestText(digest: Digest, text: string, format: string): string {
  if (format !== 'hex' && format !== 'base64') throw failed(`a hash is written as 'hex' or 'base64'`)
  return digest(text).toString(format)
}

/**
 * Digests of the UTF-8 form of a string: `hash.sha256(s)`, `hash.sha256(s, 'base64')`, `s.sha256()`, `s.sha256('hex')`,
 * for crc32 (IEEE), crc64 (ISO), md5, sha1, sha256, sha512 and xxhash64 (seed 0). Numbers are written as big-endian
 * bytes; the default is lower-case hex. Another format fails.
 */
export const hashFunctions: readonly FunctionDefinition[] = Object.entries(digests).flatMap(([name, digest]) => {
  const run = (text: string, format = 'hex') => digestText(digest, text, format)
  return [
    { signature: `hash.${name}(string): string`, run },
    { signature: `hash.${name}(string, string): string`, run },
    { signature: `string.${name}(): string`, run },
    { signature: `string.${name}(string): string`, run }
  ]
})
