import { type KeyObject, X509Certificate } from 'node:crypto'
import type { Outbound } from '../../lib/http-client/outbound.js'
import type { Failure, SenderKeys } from './scheme.js'

/**
 * URLs of Amazon SNS certificates: any customer can have a name below amazonaws.com, so only `sns` in a region is allowed, without port and
 * query.
 */
const SNS_CERTIFICATE =
  /^https:\/\/sns\.[a-z]{2}(?:-[a-z]{2,12}){1,3}-\d{1,2}\.amazonaws\.com(?:\.cn)?\/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem$/

/** Timeout (ms). */
const DEADLINE = 5_000
/** Maximum size of a certificate (bytes). */
const MAX_BYTES = 65_536
/** Cache time of a certificate (ms). */
const LIFETIME = 24 * 3_600_000
/** Delay before a failed certificate is requested again (ms). */
const PAUSE = 10_000
/** Maximum number of cached certificates. */
const MAX_KEPT = 64
/** Maximum number of concurrent fetches, because requests may contain invented names. */
const MAX_FETCHES = 4

interface Kept {
  readonly key: KeyObject
  /** Time of the next check. */
  readonly until: number
  /** Expiry. */
  readonly end: number
}

interface Asked {
  readonly until: number
  readonly answer: Promise<KeyObject | Failure>
}

/**
 * Certificates of senders, fetched on first use and cached for a day, or until they expire while checks fail. Concurrent callers share a
 * fetch. Invalid names cannot evict valid ones.
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

/** Adds an entry at the end of the map; evicts the first one if there are too many. */
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
    // OpenSSL reports invalid certificates in many ways.
    return undefined
  }
}
