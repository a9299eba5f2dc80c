import { ByteQueue } from '../lib/byte-queue.js'
import { forbiddenTrailer } from './fields.js'

const NOTHING = Buffer.alloc(0)
const NAME_END = 0x3a

/**
 * Takes the lines of a trailer section that may not be trailers (RFC 9110 6.5.1) out of the bytes before a parser
 * sees them: it would read `Connection` or a length there as if it stood in the head. The section has been scanned, so
 * each line has a name, a colon and CR LF, and its size is bounded.
 */
export class TrailerSieve {
  #held: ByteQueue | undefined = undefined

  /** The next bytes of the section; `last`: they end it. Gives what the parser may have: all of it at the end. */
  pass(bytes: Buffer, last: boolean): Buffer {
    if (!last) {
      this.#held ??= new ByteQueue()
      this.#held.push(bytes)
      return NOTHING
    }
    const held = this.#held
    this.#held = undefined
    held?.push(bytes)
    const section = held?.takeAll() ?? bytes
    // No more than the empty line: no trailers.
    return section.length === 2 ? section : sieved(section)
  }
}

function sieved(section: Buffer): Buffer {
  const kept: Buffer[] = []
  let from = 0
  while (from < section.length) {
    const end = section.indexOf('\r\n', from) + 2
    const name = section.toString('latin1', from, section.indexOf(NAME_END, from))
    if (end - from === 2 || !forbiddenTrailer(name)) kept.push(section.subarray(from, end))
    from = end
  }
  return Buffer.concat(kept)
}
