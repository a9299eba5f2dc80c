import { ControlError, controlErrors, refusedPolicy } from '../../control/errors.js'
import { isInternal } from '../../flow/flow.js'
import { Slices } from '../../lib/slices.js'
import { POLICY_MODULE } from '../../policy/record-policy.js'
import { preparing } from '../../runtime/compile.js'
import { PersistentState } from '../../runtime/persistent-state.js'
import type { RouteUnit } from '../../runtime/plan.js'
import { asKind } from '../../runtime/plan-changes.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { Candidate } from './shadow.js'
import type { ShadowCandidate } from './shadow-runner.js'
import { type ShadowParts, ShadowSnapshot } from './shadow-snapshot.js'

/** Candidate of an API request, composed over the running configuration. */
export class ComposedCandidate implements Candidate {
  routes: ReadonlySet<string> | 'every' = new Set()
  readonly #wanted: ShadowCandidate
  readonly #parts: ShadowParts
  /** The running configuration and the candidate composed over it. */
  #composed: { readonly running: Snapshot; readonly snapshot: ShadowSnapshot } | undefined
  #composing: Snapshot | undefined
  #gone: string | undefined

  constructor(wanted: ShadowCandidate, parts: ShadowParts) {
    this.#wanted = wanted
    this.#parts = parts
  }

  /** Composes the candidate for the first time; returns its errors. */
  async open(running: Snapshot): Promise<ControlError | undefined> {
    const missing = this.#missing(running)
    if (missing !== undefined) return withoutPolicy(missing)
    await this.#compose(running)
    const { snapshot } = this.#composed ?? {}
    if (snapshot === undefined) return new ControlError(controlErrors.NOT_FOUND, this.#gone ?? 'it cannot be composed')
    const problems = await Slices.besideTraffic().run(snapshot.checking())
    if (problems.length > 0) return refusedPolicy(problems)
    for (const key of this.#wanted.instead.keys()) snapshot.policy(key)
    if (this.routes !== 'every' && this.routes.size === 0) return withoutPolicy(sources(this.#wanted))
    return undefined
  }

  on(running: Snapshot): ShadowSnapshot | string | undefined {
    if (this.#gone !== undefined) return this.#gone
    if (this.#composed?.running.plan === running.plan) return this.#composed.snapshot
    const missing = this.#missing(running)
    if (missing !== undefined) return `the route ${missing} is gone, or has no traffic policy any more`
    if (this.#composing?.plan !== running.plan) void this.#compose(running)
    return this.#composed?.running.plan === running.plan ? this.#composed.snapshot : undefined
  }

  #missing({ plan }: Snapshot): string | undefined {
    for (const [key, { source }] of this.#wanted.instead) {
      if (asKind(plan.units.get(key), 'policy') === undefined) return source
    }
    return undefined
  }

  /** In slices beside traffic. Never rejects. */
  async #compose(running: Snapshot): Promise<void> {
    this.#composing = running
    try {
      await this.#composeOn(running)
    } catch (error) {
      this.#gone = `it cannot be composed: ${(error as Error).message}`
    }
  }

  async #composeOn(running: Snapshot): Promise<void> {
    const { changes } = this.#wanted
    let base = running
    if (changes !== undefined) {
      const { put, drop, secrets } = changes
      const { number } = running.plan
      const present = drop.filter((key) => running.plan.units.has(key))
      const change = { from: number, to: number + 1, put, drop: present }
      const options = { ...this.#parts, guests: this.#parts, persistentState: new PersistentState() }
      const prepared = await Slices.besideTraffic().run(preparing(running, change, secrets, options))
      if (!prepared.ok) {
        this.#gone = 'its changes do not fit the configuration that serves now'
        return
      }
      base = prepared.snapshot
    }
    if (this.#composing !== running) return
    const snapshot = new ShadowSnapshot(base, running, this.#parts)
    if (changes === undefined && this.#composed !== undefined) this.#composed = { running, snapshot }
    const routes = await routesOf([running, base], this.#wanted)
    if (this.#composing !== running) return
    this.routes = routes
    this.#composed = { running, snapshot }
  }
}

function sources({ instead }: ShadowCandidate): string {
  return [...instead.values()].map(({ source }) => source).join(', ')
}

function withoutPolicy(route: string): ControlError {
  const field = 'policies.route'
  return new ControlError(controlErrors.NOT_FOUND, `no route ${route} with a traffic policy serves here`, { field })
}

/** Returns the routes whose exchanges a candidate may decide differently. */
async function routesOf(
  snapshots: readonly Snapshot[],
  { instead, changes }: ShadowCandidate
): Promise<Candidate['routes']> {
  const found = new Set(changes?.routes)
  const slices = Slices.besideTraffic()
  const all = new Set(snapshots)
  for (const { plan } of all) {
    for (const [, unit] of plan.units) {
      if (slices.due) await slices.rest()
      if (unit.kind !== 'route') continue
      if (policiesOf(unit).some((key) => instead.has(key))) found.add(unit.id)
      if (!found.has(unit.id)) continue
      const edge = asKind(plan.units.get(`edge:${unit.edge}`), 'edge')
      const inside = edge !== undefined && edge.hosts !== 'every' && edge.hosts.some(({ host }) => isInternal(host))
      if (inside) return 'every'
    }
  }
  return found
}

function policiesOf({ modules: configs }: RouteUnit): string[] {
  const named = [configs[POLICY_MODULE] ?? []].flat() as readonly { readonly policy?: unknown }[]
  return named.flatMap(({ policy }) => (typeof policy === 'string' ? [policy] : []))
}
