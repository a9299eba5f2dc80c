import { MOST_HOPS } from '../flow/error-codes.js'
import type { RequestHead, Version } from '../flow/exchange.js'
import type { FlowRequest } from '../flow/flow.js'
import type { HeaderList } from '../flow/headers.js'
import { ownText } from '../lib/peer-names.js'

const NAME = 'via'
const COMMA = 0x2c

/** `Via` field of a process (RFC 9110 7.6.3): identifies the process to upstreams, and its own requests to itself. */
export class Via {
  /** Comment that no other process writes. */
  readonly #mark: string
  readonly #values: Readonly<Record<Version, string>>

  /** `name`: a token that several processes may share. `process`: unique text of this process. */
  constructor(name: string, process: string) {
    this.#mark = `(${process})`
    // Concatenated strings are slow to search, which each request does.
    const value = (version: string): string => ownText(`${version} ${name} ${this.#mark}`)
    this.#values = { '1.0': value('1.0'), '1.1': value('1.1'), '2': value('2.0') }
  }

  /** Returns true if this process has already forwarded the request, or the maximum number of proxies has. */
  returned({ headers }: Pick<RequestHead, 'headers'>): boolean {
    let hops = 0
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string
      if (name.length !== NAME.length || name.toLowerCase() !== NAME) continue
      const value = headers[i + 1] as string
      if (value.includes(this.#mark)) return true
      hops += members(value)
    }
    return hops >= MOST_HOPS
  }

  /** Adds this hop to a request before it is sent. */
  write({ headers, version }: FlowRequest): void {
    headers.append('Via', this.#values[version])
  }
}

/** Counts the members of a list; commas in comments count too. */
function members(list: HeaderList[number]): number {
  let count = 1
  for (let i = 0; i < list.length; i++) if (list.charCodeAt(i) === COMMA) count++
  return count
}
