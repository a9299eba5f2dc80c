import {
  CANDIDATES_SCHEMA,
  type CandidatePolicies,
  candidatesOf,
  findReplaced
} from '../../control/candidate-policies.js'
import { countOf, listOf, membersOf, refused, textOf, wordOf } from '../../control/request-body.js'
import { type Cidr, parseCidr } from '../../lib/ip.js'
import { Slices } from '../../lib/slices.js'
import { policyKey } from '../../runtime/plan.js'
import type { SnapshotHolder } from '../../runtime/snapshot.js'
import type { ShownFirewallResult } from '../../telemetry/firewall.js'
import type { Firewall } from '../explain/running-lab.js'
import type { PastExchange } from '../recorder/comparison.js'
import { CRITERIA_PROPERTY, readCriteria } from '../recorder/exchanges.js'
import type { PastTraffic } from '../recorder/running-recorder.js'
import type { WafReport } from './answers.js'
import { type Examined, examine, type Finding, type Findings, gatherFindings } from './findings.js'
import { exclusionsYaml, type Proposal, propose, withExclusions } from './proposals.js'

/** Maximum number of examined exchanges. */
const MAX_EXCHANGES = 100_000

/** Maximum number of listed findings. */
const MAX_LISTED = 500

/** Maximum number of trusted networks. */
const MAX_TRUSTED = 100
/** Maximum number of times that exclusions are withheld and the rest is tried again. */
const MAX_TRIALS = 5

/** JSON Schema of the body of `POST /waf/report`. */
export const WAF_REPORT_SCHEMA = {
  type: 'object',
  title: 'WafReportRequest',
  properties: {
    exchanges: CRITERIA_PROPERTY,
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: MAX_EXCHANGES,
      default: 10_000,
      description: 'Maximum number of exchanges, the newest ones.'
    },
    archive: {
      type: ['object', 'string'],
      description: 'An HTTP Archive (HAR) instead of recorded exchanges, or its entries as text, one in each line.'
    },
    policies: CANDIDATES_SCHEMA,
    trusted: {
      type: 'array',
      items: { type: 'string' },
      maxItems: MAX_TRUSTED,
      description: 'Addresses or networks of clients whose requests are known to be harmless, such as those of testers.'
    },
    propose: {
      enum: ['likely', 'possible'],
      default: 'likely',
      description: 'Findings that exclusions are proposed for: likely false positives, or possible ones too.'
    },
    prove: {
      type: 'boolean',
      default: true,
      description: 'Decide the exchanges without and with the proposed exclusions.'
    }
  },
  additionalProperties: false
} as const

interface ReportParts {
  readonly past: PastTraffic
  readonly serving: Pick<SnapshotHolder, 'current' | 'names'>
  readonly firewall: Firewall
}

interface ReportRequest {
  readonly instead: CandidatePolicies
  readonly trusted: readonly Cidr[]
  readonly isPossibleProposed: boolean
  readonly isProved: boolean
}

/** Exclusions, with the exchanges decided without and with them. */
interface Trial {
  readonly proposals: readonly Proposal[]
  readonly withheld: readonly (Proposal & { readonly releases: number })[]
  readonly proof: WafReport['proof']
}

/** Reports which rules of the web application firewall matched, and proposes exclusions for false positives. */
export class FirewallReports {
  readonly #parts: ReportParts

  constructor(parts: ReportParts) {
    this.#parts = parts
  }

  /** Returns the report. Fails with a ControlError for a wrong body, or a policy with errors. */
  async report(body: unknown): Promise<WafReport> {
    const given = membersOf(body ?? {}, '', Object.keys(WAF_REPORT_SCHEMA.properties))
    const past = await this.#parts.past.find({
      criteria: readCriteria(given.exchanges),
      limit: countOf(given.limit, 'limit', { least: 1, most: MAX_EXCHANGES, absent: 10_000 }),
      archive: given.archive
    })
    return await this.#report(past, {
      instead: await findReplaced(candidatesOf(given.policies), this.#parts.serving),
      trusted: readTrusted(given.trusted),
      isPossibleProposed: wordOf(given.propose, 'propose', ['likely', 'possible'], 'likely') === 'possible',
      isProved: readFlag(given.prove, 'prove', true)
    })
  }

  async #report(past: readonly PastExchange[], request: ReportRequest): Promise<WafReport> {
    const { instead, trusted, isPossibleProposed } = request
    const slices = Slices.besideTraffic()
    const examined = await this.#examine(past, instead, slices)
    const findings = await gatherFindings(examined, trusted, slices)
    const chosen = findings.all.filter(
      ({ likelihood }) => likelihood === 'likely' || (isPossibleProposed && likelihood === 'possible')
    )
    const trial = await this.#try(propose(chosen), { examined, findings, request, slices })
    const [first, last] = [past[0], past.at(-1)]
    const { proposals, withheld, proof } = trial
    return {
      rules: this.#rules(),
      exchanges: past.length,
      clients: new Set(past.map(({ request: { clientAddress } }) => clientAddress)).size,
      from: first === undefined ? null : new Date(first.at).toISOString(),
      to: last === undefined ? null : new Date(last.at).toISOString(),
      matched: examined.filter(({ matches }) => matches.length > 0).length,
      denied: examined.filter(({ isDenied }) => isDenied).length,
      not_judged: examined.filter(({ isJudged }) => !isJudged).length,
      findings: findings.all.slice(0, MAX_LISTED).map((finding) => this.#shown(finding)),
      omitted: findings.omitted + Math.max(0, findings.all.length - MAX_LISTED),
      proposals: proposals.map(({ owner, action, exclusions }) => ({
        route: this.#nameOf(owner),
        action,
        source: this.#policy(owner, instead)?.source ?? null,
        exclusions,
        yaml: exclusionsYaml(exclusions)
      })),
      withheld: withheld.map(({ owner, action, exclusions, releases }) => ({
        route: this.#nameOf(owner),
        action,
        yaml: exclusionsYaml(exclusions),
        releases
      })),
      proof
    }
  }

  async #examine(past: readonly PastExchange[], instead: CandidatePolicies, slices: Slices): Promise<Examined[]> {
    const decide = await this.#parts.past.decide(instead, past[0]?.at ?? 0)
    const examined: Examined[] = []
    for (const one of past) {
      examined.push(examine(one, await decide(one)))
      if (slices.due) await slices.rest()
    }
    return examined
  }

  /** Decides the exchanges with the proposed exclusions, and withholds those by which exchanges that look like attacks pass. */
  async #try(
    wanted: readonly Proposal[],
    {
      examined,
      findings,
      request,
      slices
    }: {
      readonly examined: readonly Examined[]
      readonly findings: Findings
      readonly request: ReportRequest
      readonly slices: Slices
    }
  ): Promise<Trial> {
    if (!request.isProved || wanted.length === 0) return { proposals: wanted, withheld: [], proof: null }
    const past = examined.map((one) => one.past)
    let proposals = wanted
    const withheld = new Map<string, Finding & { releases: number }>()
    for (let trial = 1; ; trial++) {
      const after = await this.#examine(past, this.#withAll(proposals, request.instead), slices)
      const hostile = findHostile(examined, proposals, findings.scanners)
      const released = hostile.filter((at) => after[at]?.isJudged === true && after[at].isDenied === false)
      if (released.length === 0 || proposals.length === 0)
        return {
          proposals,
          withheld: withheldProposals([...withheld.values()]),
          proof: toProof(examined, after, hostile)
        }
      const guilty = new Map<string, number>()
      for (const at of released)
        for (const { key } of examined[at]?.matches ?? []) guilty.set(key, (guilty.get(key) ?? 0) + 1)
      const kept: Finding[] = []
      for (const finding of proposals.flatMap((one) => one.findings)) {
        const releases = guilty.get(finding.key)
        if (releases === undefined && trial < MAX_TRIALS) kept.push(finding)
        else withheld.set(finding.key, { ...finding, releases: releases ?? released.length })
      }
      proposals = propose(kept)
    }
  }

  #withAll(proposals: readonly Proposal[], instead: CandidatePolicies): CandidatePolicies {
    const changed = new Map(instead)
    for (const proposal of proposals) {
      const policy = this.#policy(proposal.owner, changed)
      if (policy === undefined) continue
      changed.set(policyKey(proposal.owner), { ...policy, text: withExclusions(policy.text, proposal) })
    }
    return changed
  }

  /** Returns the tried policy of an owner, or the one that serves. */
  #policy(owner: string, instead: CandidatePolicies): { readonly text: string; readonly source: string } | undefined {
    const key = policyKey(owner)
    return instead.get(key) ?? this.#parts.serving.current().policySource(key)
  }

  #nameOf(owner: string): string {
    return this.#parts.serving.names.ownerOf(owner) ?? owner
  }

  #shown({ owner, rule, signedIn, ...finding }: Finding): WafReport['findings'][number] {
    const { action, path, message, variable, exchanges, clients, denied, accepted, rejected } = finding
    const { values, likelihood, reasons } = finding
    return {
      route: this.#nameOf(owner),
      ...{ action, path, rule, message, variable, exchanges, clients, denied, accepted, rejected },
      signed_in: signedIn,
      ...{ values, likelihood, reasons }
    }
  }

  #rules(): WafReport['rules'] {
    const { rules } = this.#parts.firewall
    if (typeof rules !== 'object') return null
    const { signature, size, digest } = rules.current
    return { name: signature, size, digest }
  }
}

/** Returns the indices of denied exchanges that look like attacks: of scanners, or with a score that reaches the threshold without excluded matches. */
function findHostile(
  examined: readonly Examined[],
  proposals: readonly Proposal[],
  scanners: ReadonlySet<string>
): number[] {
  const excluded = new Set(proposals.flatMap(({ findings }) => findings.map(({ key }) => key)))
  return examined.flatMap(({ past, isDenied, matches }, at) => {
    if (!isDenied) return []
    const scores = new Map<ShownFirewallResult, number>()
    for (const { key, result, score } of matches)
      if (!excluded.has(key)) scores.set(result, (scores.get(result) ?? 0) + score)
    const reaches = [...scores].some(([{ threshold }, score]) => score >= threshold)
    return reaches || scanners.has(past.request.clientAddress) ? [at] : []
  })
}

function toProof(
  before: readonly Examined[],
  after: readonly Examined[],
  hostile: readonly number[]
): NonNullable<WafReport['proof']> {
  const judged = before.flatMap((one, at) => (one.isJudged && after[at]?.isJudged === true ? [at] : []))
  const isJudged = new Set(judged)
  const isDenied = (all: readonly Examined[], at: number) => all[at]?.isDenied === true
  const denied = (all: readonly Examined[], of: readonly number[]) => of.filter((at) => isDenied(all, at)).length
  const attacks = hostile.filter((at) => isJudged.has(at))
  return {
    exchanges: judged.length,
    not_judged: before.length - judged.length,
    denied: { before: denied(before, judged), after: denied(after, judged) },
    hostile: { before: attacks.length, after: denied(after, attacks) }
  }
}

function withheldProposals(findings: readonly (Finding & { readonly releases: number })[]): Trial['withheld'] {
  return findings.flatMap((finding) =>
    propose([finding]).map((proposal) => ({ ...proposal, releases: finding.releases }))
  )
}

function readTrusted(value: unknown): Cidr[] {
  if (value === undefined || value === null) return []
  const all = listOf(value, 'trusted')
  if (all.length > MAX_TRUSTED) throw refused('FIELD_INVALID', 'trusted', `must have at most ${MAX_TRUSTED} networks`)
  return all.map((one, i) => {
    const cidr = parseCidr(textOf(one, `trusted[${i}]`))
    if (cidr === undefined)
      throw refused('FIELD_INVALID', `trusted[${i}]`, 'must be an IP address or a network such as 203.0.113.0/24')
    return cidr
  })
}

function readFlag(value: unknown, at: string, otherwise: boolean): boolean {
  if (value === undefined || value === null) return otherwise
  if (typeof value !== 'boolean') throw refused('FIELD_INVALID', at, 'must be true or false')
  return value
}
