import { MOST_HOPS } from '../flow/error-codes.js'
import type { RequestHead, Version } from '../flow/exchange.js'
import type { FlowRequest } from '../flow/flow.js'
import type { HeaderList } from '../flow/headers.js'
import { ownText } from '../lib/peer-names.js'

const NAME = 'via'
const COMMA = 0x2c

/** The `Via` field of a process (RFC 9110 7.6.3): it names the process to upstreams, and shows it the requests that it has sent itself. */
export class Via {
  /** A comment that no other process writes. */
  readonly #mark: string
  readonly #values: Readonly<Record<Version, string>>

  /** `name`: a token, which several processes may share. `process`: text that tells this process from all others. */
  constructor(name: string, process: string) {
    this.#mark = `(${process})`
    // Joined texts are slow to look through, which each request does.
    const value = (version: string): string => ownText(`${version} ${name} ${this.#mark}`)
    this.#values = { '1.0': value('1.0'), '1.1': value('1.1'), '2': value('2.0') }
  }

  /** Has this process sent a request with these fields before, or have as many proxies passed it on as may? */
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

  /** Adds this hop to a request that is about to be sent. */
  write({ headers, version }: FlowRequest): void {
    headers.append('Via', this.#values[version])
  }
}

/** Number of members of a list, those that commas in comments make among them. */
function members(list: HeaderList[number]): number {
  let count = 1
  for (let i = 0; i < list.length; i++) if (list.charCodeAt(i) === COMMA) count++
  return count
}
