import { randomBytes } from 'node:crypto'
import { Writable } from 'node:stream'
import { DeadLetterLists } from '../../../src/capabilities/events/dead-letters.js'
import { Events, type EventsOptions } from '../../../src/capabilities/events/events.js'
import { type Clock, systemClock } from '../../../src/lib/clock.js'
import { createOutbound } from '../../../src/lib/http-client/outbound.js'
import { Sealer, sealKey } from '../../../src/lib/seal.js'
import type { Store } from '../../../src/store/store.js'
import { type Account, BASE, open, type Setup } from '../../control/account.js'
import { Lines, type Test } from '../../store/opened.js'

/** One for all, so that two processes can share a store. */
const SEAL_KEY = sealKey(randomBytes(32))
const PATIENCE = 900

export interface Stand {
  readonly account: Account
  readonly events: Events
  readonly letters: DeadLetterLists
  readonly log: Lines
  /** Ends it as a crash would, as far as others can tell: nothing is given back. */
  stop(): Promise<void>
  /** A subscription to these types that leads to a new webhook; answers the id of the destination. */
  hook(url: string, types: readonly (string | object)[], secret?: string): Promise<string>
}

export interface StandSetup extends Setup, Partial<Pick<EventsOptions, 'refusals' | 'letterBounds' | 'outbound'>> {
  /** Its name among others on the store. */
  readonly process?: string
  readonly eventClock?: Clock
}

/** A control plane whose events are delivered. */
export async function stand(t: Test, options: StandSetup = {}): Promise<Stand> {
  const { process, refusals, letterBounds, outbound, eventClock = systemClock, ...setup } = options
  const seal = new Sealer(SEAL_KEY)
  const log = new Lines()
  const events = new Events({
    // Names of the outer world have no address here.
    outbound: outbound ?? createOutbound({ clock: systemClock, allowPrivate: true, lookup: async () => [] }),
    clock: eventClock,
    log,
    seal,
    stdout: new Writable({ write: (_chunk, _encoding, done) => done() }),
    random: Math.random,
    baseUrl: () => BASE,
    backOff: { first: 20, longest: 100 },
    patience: PATIENCE,
    process,
    refusals,
    letterBounds
  })
  let attached: Promise<unknown> = Promise.resolve()
  const account = await open(t, {
    seal,
    events,
    served: events.served,
    deliveryOf: events.deliveryOf,
    wrap: (store: Store) => {
      attached = events.attach(store)
      return store
    },
    ...setup
  })
  await attached
  await events.start()
  let stopped: Promise<void> | undefined
  const stop = () => {
    stopped ??= events.stop()
    return stopped
  }
  t.teardown(stop)
  return {
    account,
    events,
    letters: new DeadLetterLists({
      ...account.control.serviceAccount,
      reads: account.control.reads,
      baseUrl: () => BASE,
      delivery: events
    }),
    log,
    stop,
    async hook(url, types, secret) {
      const target = { webhook: { url, ...(secret === undefined ? {} : { secret }) } }
      const { id } = await account.create('event_destination', { target })
      const sources = types.map((type) => (typeof type === 'string' ? { type } : type))
      await account.create('event_subscription', { sources, destination_ids: [id] })
      return id
    }
  }
}
