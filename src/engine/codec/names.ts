import { consistsOf, TOKEN } from './grammar.js'

/** What the engine itself does with a field. */
export const FIELD = {
  plain: 0,
  /** No name at all: cannot be written. */
  invalid: 1,
  host: 2,
  contentLength: 3,
  transferEncoding: 4,
  connection: 5,
  expect: 6,
  upgrade: 7,
  trailer: 8,
  keepAlive: 9,
  date: 10
} as const

export type FieldKind = (typeof FIELD)[keyof typeof FIELD]

const KINDS: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ['host', FIELD.host],
  ['content-length', FIELD.contentLength],
  ['transfer-encoding', FIELD.transferEncoding],
  ['connection', FIELD.connection],
  ['expect', FIELD.expect],
  ['upgrade', FIELD.upgrade],
  ['trailer', FIELD.trailer],
  ['keep-alive', FIELD.keepAlive],
  ['date', FIELD.date]
])

const SLOTS = 1024
/** Names that peers make up must not grow the table of kinds without bound. */
const REMEMBERED = 2048
const LONGEST = 64

/**
 * Field names that were seen, so that the usual ones are one string each for the life of the process: its hash is known,
 * it compares by identity, and nothing is allocated to read it.
 */
export class FieldNames {
  readonly #slots: (string | undefined)[] = new Array<string | undefined>(SLOTS).fill(undefined)
  readonly #kindOfSlot = new Uint8Array(SLOTS)
  readonly #kinds = new Map<string, FieldKind>()
  /** Kind of the name that `intern` gave last. */
  kind: FieldKind = FIELD.plain

  /** The name in `text` from `from` to `to`, which consists of token characters; `hash` is any hash of it. Sets `kind`. */
  intern(text: string, from: number, to: number, hash: number): string {
    const slot = hash & (SLOTS - 1)
    const known = this.#slots[slot]
    if (known !== undefined && known.length === to - from) {
      let i = 0
      while (i < known.length && known.charCodeAt(i) === text.charCodeAt(from + i)) i++
      if (i === known.length) {
        this.kind = this.#kindOfSlot[slot] as FieldKind
        return known
      }
    }
    const name = text.slice(from, to)
    const kind = kindOf(name)
    this.kind = kind
    if (name.length <= LONGEST) {
      // A slice would keep the whole head alive in the table.
      this.#slots[slot] = Buffer.from(name, 'latin1').toString('latin1')
      this.#kindOfSlot[slot] = kind
    }
    return name
  }

  /** Kind of any name, also of one that was not read from the wire; `invalid` for what is no token. */
  of(name: string): FieldKind {
    const known = this.#kinds.get(name)
    if (known !== undefined) return known
    const kind = name.length > 0 && consistsOf(TOKEN, name) ? kindOf(name) : FIELD.invalid
    if (this.#kinds.size < REMEMBERED && name.length <= LONGEST) this.#kinds.set(name, kind)
    return kind
  }
}

function kindOf(name: string): FieldKind {
  return KINDS.get(name.toLowerCase()) ?? FIELD.plain
}
