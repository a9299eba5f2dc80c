import { type KeyObject, X509Certificate } from 'node:crypto'
import type { Outbound } from '../../lib/http-client/outbound.js'
import type { Failure, SenderKeys } from './scheme.js'

/**
 * Where Amazon SNS keeps its certificates: below amazonaws.com any customer can have a name, so only `sns` in a region will do, and
 * neither a port nor a query.
 */
const SNS_CERTIFICATE =
  /^https:\/\/sns\.[a-z]{2}(?:-[a-z]{2,12}){1,3}-\d{1,2}\.amazonaws\.com(?:\.cn)?\/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem$/

/** All times in milliseconds. */
const DEADLINE = 5_000
const MAX_BYTES = 65_536
/** How long a certificate is used without another look. */
const LIFETIME = 24 * 3_600_000
/** How long a certificate is not asked for again after a failure. */
const PAUSE = 10_000
const MAX_KEPT = 64
/** Fetches under way at once: requests with invented names cannot have more made. */
const MAX_FETCHES = 4

interface Kept {
  readonly key: KeyObject
  /** When it is looked at again. */
  readonly until: number
  /** When it expires. */
  readonly end: number
}

interface Asked {
  readonly until: number
  readonly answer: Promise<KeyObject | Failure>
}

/**
 * Certificates of senders, fetched when first named and kept for a day, or until they expire while no new look succeeds.
 * One fetch serves all who wait for it. Names that lead nowhere cannot push out those that do.
 */
export class SenderCertificates implements SenderKeys {
  readonly #outbound: Outbound
  readonly #kept = new Map<string, Kept>()
  readonly #asked = new Map<string, Asked>()
  #fetching = 0

  constructor(outbound: Outbound) {
    this.#outbound = outbound
  }

  async certificate(url: string, now: number): Promise<KeyObject | Failure> {
    if (!SNS_CERTIFICATE.test(url)) return 'CERTIFICATE_REFUSED'
    const kept = this.#kept.get(url)
    if (kept !== undefined && now < kept.until) return kept.key
    const found = await this.#ask(url, now)
    return found === 'CERTIFICATE_UNAVAILABLE' && kept !== undefined && now < kept.end ? kept.key : found
  }

  #ask(url: string, now: number): Promise<KeyObject | Failure> {
    const asked = this.#asked.get(url)
    if (asked !== undefined && now < asked.until) return asked.answer
    if (this.#fetching >= MAX_FETCHES) return Promise.resolve('CERTIFICATE_UNAVAILABLE')
    const answer = this.#fetch(url, now)
    keep(this.#asked, url, { until: now + PAUSE, answer })
    return answer
  }

  async #fetch(url: string, now: number): Promise<KeyObject | Failure> {
    this.#fetching++
    try {
      const answer = await this.#outbound.request({
        method: 'GET',
        url,
        deadline: DEADLINE,
        maxResponseBytes: MAX_BYTES
      })
      if (!answer.ok || answer.status !== 200) return 'CERTIFICATE_UNAVAILABLE'
      const found = read(answer.body)
      if (found === undefined || now < found.from || now > found.end) return 'CERTIFICATE_REFUSED'
      keep(this.#kept, url, { key: found.key, until: Math.min(now + LIFETIME, found.end), end: found.end })
      return found.key
    } finally {
      this.#fetching--
    }
  }
}

/** At the end of the map, whose first entry goes when there are too many. */
function keep<V>(map: Map<string, V>, name: string, value: V): void {
  map.delete(name)
  map.set(name, value)
  const [oldest] = map.keys()
  if (map.size > MAX_KEPT && oldest !== undefined) map.delete(oldest)
}

function read(pem: Uint8Array): { readonly key: KeyObject; readonly from: number; readonly end: number } | undefined {
  try {
    const certificate = new X509Certificate(pem)
    const { publicKey: key, validFrom, validTo } = certificate
    return key.asymmetricKeyType === 'rsa' ? { key, from: Date.parse(validFrom), end: Date.parse(validTo) } : undefined
  } catch {
    // OpenSSL has many ways to say that this is no certificate.
    return undefined
  }
}
