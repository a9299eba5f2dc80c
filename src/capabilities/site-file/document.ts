import { readdir, readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { policyProblems } from '../../app/policy-check.js'
import type { Checked, DocumentKind, ReadDocument } from '../../cli/documents.js'
import { SITE_FILE } from '../../control/declared-records.js'
import { actions } from '../../features/registry.js'
import { systemClock } from '../../lib/clock.js'
import { SourceText } from '../../lib/positions.js'
import { Slices } from '../../lib/slices.js'
import { readListener } from '../../options/values.js'
import { policyTesting } from '../policy-tests/stored-tests.js'
import { siteFileSchema } from './declared/schema.js'
import { looksLikeSiteFile, newVersionKey, readSiteFile } from './declared/site-file.js'

/** Site files, for `sluice check` and `sluice schema`. */
export const siteDocument: DocumentKind = { matches: looksLikeSiteFile, check: checkSite, schema: siteFileSchema }

async function checkSite({ file, text, services, environment }: ReadDocument): Promise<Checked> {
  const {
    problems,
    files,
    file: site
  } = await readSiteFile({
    source: file,
    folder: file === '-' ? process.cwd() : dirname(resolve(file)),
    text,
    environment,
    readFile: (path) => readFile(path, 'utf8'),
    listFolder: (path) => readdir(path),
    policyProblems: policyProblems(services, actions, () => true),
    testPolicy: policyTesting({ slices: () => new Slices() }),
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey: newVersionKey(),
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set()
  })
  const own = problems.some(({ key }) => key === SITE_FILE) ? [] : [{ source: file, text, problems: [] }]
  const findings = [...own, ...problems].map((one) => {
    const source = new SourceText(one.text)
    return { file: one.source, problems: one.problems, line: (number: number) => source.line(number) }
  })
  const listeners = site?.listeners.map(({ unit: { host, port } }) => ({ host, port })) ?? []
  return { findings, named: files, listeners }
}
