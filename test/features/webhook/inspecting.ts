import { providers } from '../../../src/features/webhook/providers.js'
import { type Outcome, Verification } from '../../../src/features/webhook/verification.js'
import { HeaderFields, type HeaderList } from '../../../src/flow/headers.js'
import type { Outbound } from '../../../src/lib/http-client/outbound.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'

/** A request as a sender makes it. */
export interface Delivery {
  readonly method: string
  readonly url: string
  /** Names and values by turns. */
  readonly headers: HeaderList
  readonly body: Uint8Array
}

const kit = new Kit()

/** A verification of one sender, at a time that the caller sets. */
export function inspector(provider: string, outbound: Outbound = kit.services.outbound) {
  const known = providers.get(provider)
  if (known === undefined) throw new Error(`no provider ${provider}`)
  let now = 0
  const services = { ...kit.services, outbound, clock: { monotonic: () => now, wall: () => now } }
  const verification = new Verification(provider, known, services, { keep: (_key, make) => make('') })
  return {
    async outcome(secret: string, delivery: Delivery, at: number, status = 200): Promise<Outcome> {
      now = at
      const flow = makeFlow(delivery)
      const outcome = await verification.outcome(flow, secret)
      flow.response = {
        status,
        reason: '',
        headers: new HeaderFields([]),
        body: undefined,
        local: false,
        transforms: [],
        trailers: undefined
      }
      flow.end()
      return outcome
    }
  }
}

/** `verified`, the code of the failure, or what the answer says. */
export function say(outcome: Outcome): string {
  if (outcome.kind === 'verified') return 'verified'
  if (outcome.kind === 'unverified') return outcome.failure
  return `${outcome.kind} ${outcomeOf(outcome.verdict)}`
}

/** One look with nothing remembered. */
export async function inspect(provider: string, secret: string, delivery: Delivery, at: number): Promise<string> {
  return say(await inspector(provider).outcome(secret, delivery, at))
}

/** The value of a field of a delivery. */
export function fieldOf({ headers }: Delivery, name: string): string {
  const i = headers.findIndex((one, index) => index % 2 === 0 && one.toLowerCase() === name.toLowerCase())
  return headers[i + 1] ?? ''
}

/** The delivery with another value in one field. */
export function withField(delivery: Delivery, name: string, value: string): Delivery {
  const headers = [...delivery.headers]
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === name.toLowerCase()) headers[i + 1] = value
  }
  return { ...delivery, headers }
}

/** The delivery without a field. */
export function withoutField(delivery: Delivery, name: string): Delivery {
  const kept: string[] = []
  for (let i = 0; i < delivery.headers.length; i += 2) {
    if (delivery.headers[i]?.toLowerCase() !== name.toLowerCase()) {
      kept.push(delivery.headers[i] as string, delivery.headers[i + 1] as string)
    }
  }
  return { ...delivery, headers: kept }
}
