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
/** Slots that are looked at for one name. */
const PROBES = 3
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

  /**
   * The name in `text` from `from` to `to`, which consists of token characters; `hash` is any hash of it. Sets `kind`. A
   * name keeps its slot for ever, so that made-up names cannot push the usual ones out.
   */
  intern(text: string, from: number, to: number, hash: number): string {
    let slot = hash & (SLOTS - 1)
    for (let probe = 0; probe < PROBES; probe++) {
      const known = this.#slots[slot]
      if (known === undefined) return this.#learn(text.slice(from, to), slot)
      if (known.length === to - from) {
        let i = 0
        while (i < known.length && known.charCodeAt(i) === text.charCodeAt(from + i)) i++
        if (i === known.length) {
          this.kind = this.#kindOfSlot[slot] as FieldKind
          return known
        }
      }
      slot = (slot + 1) & (SLOTS - 1)
    }
    const name = text.slice(from, to)
    this.kind = kindOf(name)
    return name
  }

  #learn(name: string, slot: number): string {
    this.kind = kindOf(name)
    if (name.length > LONGEST) return name
    // A slice would keep the whole head alive in the table.
    const own = Buffer.from(name, 'latin1').toString('latin1')
    this.#slots[slot] = own
    this.#kindOfSlot[slot] = this.kind
    return own
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
