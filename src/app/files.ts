import type { Applied, OwnPart, OwnUnits } from '../control/apply.js'
import { fileUnits } from '../control/file-units.js'
import { type PolicyTesting, testProblems } from '../control/policy-tests.js'
import { readOptionFile, shownPath } from '../lib/files.js'
import { readAuthorityFile } from '../lib/x509.js'
import { opensListen } from '../options/catalogue.js'
import type { Options } from '../options/options.js'
import type { UnitProblems } from '../policy/problems.js'
import type { PortProblem } from '../runtime/ports.js'
import type { SnapshotHolder } from '../runtime/snapshot.js'
import type { Metrics } from '../telemetry/metrics.js'
import { ConfigurationRefused } from './errors.js'
import type { LiveOptions } from './live-options.js'
import type { OpenedParts } from './opened-parts.js'
import type { FileChanges } from './own-files.js'
import { OWN_FILES, POLICY_TESTS, RELOAD_STEPS } from './ports.js'

/** Result of applying the files, with the changes of the site file. */
export type AppliedFiles = Applied & {
  /** Changes of the site file; undefined without one. */
  readonly sites?: FileChanges
  /** Absolute paths of the files that a site file names. */
  readonly named: readonly string[]
}

/**
 * Reads the files that the options name, and applies them together with reloadable options (`RELOADED`); errors change
 * nothing. Rejects if a file is unreadable; for a site file and the files that it names, that is a reported problem.
 */
export type ApplyFiles = (options: Options) => Promise<AppliedFiles>

/** Dependencies of applying files. */
interface FilesParts {
  readonly own: OwnUnits
  readonly metrics: Metrics
  readonly holder: SnapshotHolder
  readonly live: Pick<LiveOptions, 'take'>
  readonly opened: OpenedParts
}

/** Applies the files as a part of the units that belong to the process itself. */
export function filesOf(started: Options, { own, metrics, holder, live, opened }: FilesParts): ApplyFiles {
  const sites = opened.find(OWN_FILES)
  return async (options) => {
    const { listen } = started
    const { listeners, path_form, edges_on_http, hsts, upstream, files, upstream_ca, policy: path } = options
    const uses = opened.all(RELOAD_STEPS).map((prepare) => prepare(options))
    const policy =
      path === undefined ? undefined : { source: shownPath(path), text: await readOptionFile(path, 'policy') }
    const site = await sites?.read()
    const units = fileUnits({
      listen: opensListen({ listen, listeners }, site?.listeners ?? 0) ? listen : undefined,
      listeners,
      path_form,
      edges_on_http,
      hsts:
        hsts.max_age === 0
          ? undefined
          : {
              maxAge: Math.floor(hsts.max_age / 1_000),
              includeSubdomains: hsts.include_subdomains,
              preload: hsts.preload
            },
      upstream,
      files,
      certificateAuthorities:
        upstream_ca === undefined ? undefined : await readAuthorityFile(upstream_ca, 'upstream_ca'),
      policy
    })
    const failed = policy === undefined ? [] : await testsOf(options, policy.text, opened.find(POLICY_TESTS)?.testing)
    if (failed.length > 0) {
      metrics.configuration('refused')
      return { ok: false, revision: holder.current().revision, problems: failed, ports: [], named: [] }
    }
    if (site !== undefined && site.part === undefined) {
      metrics.configuration('refused')
      const { revision } = holder.current()
      return { ok: false, revision, problems: site.problems, ports: [], named: site.files }
    }
    const parts = new Map<string, OwnPart>([['files', { units }]])
    if (sites !== undefined && site?.part !== undefined) parts.set(sites.name, site.part)
    const applied = await own.putAll(parts)
    metrics.configuration(applied.ok ? 'applied' : 'refused')
    if (applied.ok) {
      live.take(options)
      for (const use of uses) use?.()
    }
    if (!applied.ok || site === undefined) return { ...applied, named: site?.files ?? [] }
    site.applied()
    const warnings = [...site.problems, ...applied.warnings.filter(({ key }) => !site.part?.units.has(key))]
    return { ...applied, warnings, sites: site.changes, named: site.files }
  }
}

/** Returns the problems of the policy's tests, or of the policy under its tests. */
async function testsOf(
  { policy_tests: path }: Options,
  policy: string,
  test: PolicyTesting | undefined
): Promise<UnitProblems[]> {
  if (path === undefined) return []
  if (test === undefined) throw new RangeError('no tests of policies are run here')
  const tests = await readOptionFile(path, 'policy_tests')
  const problems = testProblems(await test({ policy, tests }))
  return problems.length === 0 ? [] : [{ key: 'policy_tests', source: shownPath(path), text: tests, problems }]
}

/** The first application, which a start cannot do without: rejects when the configuration is refused. */
export async function applyFirst(apply: ApplyFiles, options: Options): Promise<Extract<AppliedFiles, { ok: true }>> {
  const applied = await apply(options)
  if (!applied.ok) throw refusedStart(applied)
  return applied
}

/** Why the configuration at the start is refused; a port that cannot be opened is reported with the error of the system. */
function refusedStart({ problems, ports }: Extract<Applied, { ok: false }>): Error {
  const [first] = ports
  return first === undefined ? new ConfigurationRefused(problems) : systemError(first)
}

function systemError({ host, port, reason }: PortProblem): Error {
  const unresolved = reason === 'ENOTFOUND' || reason === 'EAI_AGAIN'
  const about = unresolved ? { syscall: 'getaddrinfo', hostname: host } : { syscall: 'listen', address: host, port }
  return Object.assign(new Error(`listen ${reason}: ${host}:${port}`), { code: reason, errno: undefined, ...about })
}
