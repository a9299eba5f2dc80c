import { METHODS } from 'node:http'
import { cutAtRandom, type Random } from './codec-fuzz.js'
import { type ReadMessage, readByNode, readRequests } from './codec-messages.js'

/** What came of one message: how many requests the codec accepted, and what is wrong about them, if anything is. */
export interface Compared {
  readonly accepted: number
  readonly problem?: string
}

/** Reads `bytes` whole, in pieces, and by llhttp: whatever the codec accepts, all three must agree on. */
export async function compared(bytes: Buffer, random: Random): Promise<Compared> {
  const whole = readRequests([bytes])
  const accepted = whole.messages.length
  const pieces = cutAtRandom(bytes, random)
  const cut = readRequests(pieces)
  const shown = JSON.stringify(bytes.toString('latin1'))
  if (JSON.stringify(cut) !== JSON.stringify(whole)) {
    const lengths = pieces.map(({ length }) => length).join()
    return {
      accepted,
      problem: `${shown} in pieces of ${lengths}: ${JSON.stringify(cut)} is not ${JSON.stringify(whole)}`
    }
  }
  if (accepted === 0) return { accepted }
  const messages = comparable(whole.messages, bytes.toString('latin1'))
  const node = (await readByNode(bytes)).slice(0, messages.length)
  if (JSON.stringify(node) === JSON.stringify(messages)) return { accepted }
  return { accepted, problem: `${shown}: llhttp reads ${JSON.stringify(node)}, the codec ${JSON.stringify(messages)}` }
}

/**
 * The messages on which both readers must agree. Fields that may be no trailers mean nothing to the codec, which drops them, but
 * llhttp believes or refuses them; it knows no method but those of its list, and refuses a target that the codec encodes, so that it does not stand in `text`; it reads nothing behind an upgrade that has a body or another method than GET; and node's
 * server holds a pipelined CONNECT back.
 */
function comparable(messages: readonly ReadMessage[], text: string): readonly ReadMessage[] {
  const odd = messages.findIndex(
    ({ trailers }) =>
      hasField(trailers, 'connection') ||
      hasField(trailers, 'content-length') ||
      hasField(trailers, 'transfer-encoding')
  )
  const sound = odd === -1 ? messages : messages.slice(0, odd)
  const unknown = sound.findIndex(({ method, target }) => !METHODS.includes(method) || !text.includes(target))
  const read = unknown === -1 ? sound : sound.slice(0, unknown)
  const last = read.findIndex(({ headers }) => hasField(headers, 'upgrade'))
  const kept = last === -1 ? read : read.slice(0, last + 1)
  return kept.filter(({ method }, i) => i === 0 || method !== 'CONNECT')
}

function hasField(list: readonly string[], wanted: string): boolean {
  return list.some((name, i) => i % 2 === 0 && name.toLowerCase() === wanted)
}
