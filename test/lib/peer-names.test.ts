import t from 'tap'
import { ownText, PeerNames } from '../../src/lib/peer-names.js'
import { HeaderKinds } from '../../src/proxy/header-sanitizing.js'
import { FieldNames } from '../../src/transport/http1/serialise.js'
import { encodeFields } from '../../src/transport/http2/heads.js'
import { HpackEncoder } from '../../src/transport/http2/hpack-encoder.js'
import { heldMemory } from '../helpers/memory.js'

const NAMES = 2_100
const HEAD = 57_000
const MOST = 2 * 1024 * 1024

/** Memory that remains when `read` has got many names: the whole of a large head each, or a short part of one. */
function kept(read: (name: string) => unknown, length: number): number {
  const before = heldMemory()
  for (let i = 0; i < NAMES; i++) {
    const head = `X-NAME-OF-A-CLIENT-${i}-${'A'.repeat(HEAD)}`.toLowerCase()
    read(head.slice(0, length))
  }
  return heldMemory() - before
}

t.test('names that clients make up keep little memory, long ones and those cut out of a large head', async (t) => {
  const kinds = new HeaderKinds()
  const names = new FieldNames()
  for (const length of [HEAD, 30]) {
    t.ok(kept((name) => kinds.of(name), length) < MOST, `kinds, ${length} characters`)
    t.ok(kept((name) => names.of(name), length) < MOST, `names, ${length} characters`)
    t.ok(kept((name) => encodeFields(new HpackEncoder(), [name, '1']), length) < MOST, `HTTP/2, ${length} characters`)
  }
  t.equal(kinds.of('x-forwarded-for'), kinds.of('X-Forwarded-For'), 'a full memory changes no answer')
})

t.test('values that an encoder of HTTP/2 remembers keep no head alive', async (t) => {
  const encoder = new HpackEncoder()
  let i = 0
  const memory = kept((text) => encodeFields(encoder, [`x-name-${++i % 128}`, text]), 30)
  t.ok(memory < MOST, `${memory} bytes`)
})

t.test('what is remembered is the name itself, beyond latin1 too', async (t) => {
  const names = new PeerNames<number>()
  // The low byte of each character is one of `token`.
  const alike = 'token'.replace(/./g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 0x100))
  names.remember(alike, 1)
  t.same([names.get(alike), names.get('token')], [1, undefined])
  for (const text of ['', 'a', 'ä', alike, '\ud800']) t.equal(ownText(text), text)
})
