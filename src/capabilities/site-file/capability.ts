import { defineCapability } from '../../app/capability.js'
import { ConfigurationRefused } from '../../app/errors.js'
import { partKey } from '../../app/opened-parts.js'
import type { ReadOwnFile } from '../../app/own-files.js'
import { policyProblems } from '../../app/policy-check.js'
import { OWN_FILES, POLICY_TESTS, RELOAD_STEPS } from '../../app/ports.js'
import type { Controlled } from '../../app/stages.js'
import { SITE } from '../../control/declared-records.js'
import { actions } from '../../features/registry.js'
import { isShared, storeAddress } from '../../options/catalogue.js'
import { resources } from '../../resources/registry.js'
import { withPlace } from './answers.js'
import { siteErrors } from './declared/site-codes.js'
import { applyErrors } from './declared/site-errors.js'
import { type ReadSite, SiteFiles, SiteReader } from './reading.js'
import { siteRoutes } from './routes.js'
import { SITE_PART, Sites } from './sites.js'

const READER = partKey<SiteReader>('reader of site files')
const SITES = partKey<Sites>('site file')

/** Declares sites by a file. */
export const siteFile = defineCapability({
  name: 'site-file',
  routes: siteRoutes,
  errors: { 'Management API': [applyErrors], 'Site files': [siteErrors] },
  describesRecord: withPlace,
  stages: {
    ruled({ options, host, foundation: { clock }, policies: { services }, opened }) {
      const reader = new SiteReader(options, {
        clock,
        environment: host.environment ?? {},
        policyProblems: policyProblems(services, actions, () => true),
        testPolicy: opened.get(POLICY_TESTS).testing
      })
      opened.put(READER, reader)
      const { site_file: path } = options
      if (path !== undefined) {
        const files = new SiteFiles(path, reader)
        opened.put(OWN_FILES, { name: SITE_PART, read: async () => asOwnFile(await files.read()) })
      }
      opened.add(RELOAD_STEPS, ({ listeners, edges_on_http }) => {
        // Before the file is read.
        reader.use({ listeners, edges_on_http })
        return undefined
      })
    },
    async controlled({ options, foundation: { clock, log, revisions }, control, opened }) {
      const { own, serviceAccount } = control
      const sites = new Sites({ ...serviceAccount, own, reading: opened.get(READER), resources, clock, log })
      opened.put(SITES, sites)
      control.reverts.restores(SITE.kind, (...revision) => sites.restore(...revision))
      if (isShared(storeAddress(options))) revisions.add({ served: () => sites.followed() })
      await stageApplied(sites, own)
    }
  },
  open: ({ opened }) => opened.get(SITES)
})

function asOwnFile({ file, set, problems, files, changes, applied }: ReadSite): ReadOwnFile {
  const part =
    file === undefined || set === undefined ? undefined : { units: file.units, secrets: file.secrets, declared: set }
  return { part, listeners: file?.listeners.length ?? 0, problems, files, changes, applied }
}

/** The applied site file serves from the first snapshot on. Fails with `ConfigurationRefused`: its sites would be missing. */
async function stageApplied(sites: Sites, own: Controlled['control']['own']): Promise<void> {
  const stored = await sites.stored()
  if (stored === undefined) return
  if (stored.part === undefined) throw new ConfigurationRefused(stored.problems)
  own.stage(SITE_PART, stored.part)
}
