import { apiErrors } from '../api/errors.js'
import { capabilityErrors, serverCapabilities } from '../capabilities/registry.js'
import { controlErrors } from '../control/errors.js'
import { operatorKeyErrors } from '../control/operator-keys.js'
import { sealKeyErrors } from '../control/seal-key.js'
import { expressionErrors } from '../expression/problems.js'
import { moduleErrors } from '../features/contract.js'
import { loginStartErrors, providerErrors } from '../features/login/provider-fetch.js'
import { actions, features } from '../features/registry.js'
import { wafStartErrors } from '../features/waf/errors.js'
import { flowErrors, internalRequestErrors } from '../flow/error-codes.js'
import { requestErrors } from '../lib/certificate-request.js'
import { systemClock } from '../lib/clock.js'
import type { ErrorTable } from '../lib/errors.js'
import { fileErrors } from '../lib/files.js'
import { outboundErrors } from '../lib/http-client/answer.js'
import { redirectErrors } from '../lib/http-client/redirects.js'
import { sealErrors } from '../lib/seal.js'
import { x509Errors } from '../lib/x509.js'
import { optionErrors } from '../options/catalogue.js'
import { policyErrors } from '../policy/problems.js'
import { treeErrors } from '../policy/tree.js'
import { policyWarnings } from '../policy/warnings/codes.js'
import { authorityErrors } from '../resources/certificates.js'
import { provisioningErrors } from '../resources/domains.js'
import { portErrors } from '../runtime/ports.js'
import { fieldErrors } from '../schema/errors.js'
import { copyErrors, storeErrors } from '../store/errors.js'
import { registerFamily } from '../telemetry/metric-family.js'
import { Metrics } from '../telemetry/metrics.js'
import {
  observeAgents,
  observeDeliveries,
  observeHealth,
  observeLog,
  observeNames,
  observeRestrictions,
  observeSpans,
  observeStore,
  observeUpstreamNames,
  observeUpstreams
} from '../telemetry/observed-metrics.js'
import type { ErrorGroupTitle } from './capability.js'
import { commandErrors, startErrors } from './errors.js'
import { offline, policyServices } from './services.js'

/** Error codes that occur in the same place. Codes are unique within a group. */
export interface ErrorGroup {
  readonly title: ErrorGroupTitle
  /** Place where the codes occur, for the reference documentation. */
  readonly where: string
  readonly tables: readonly ErrorTable[]
}

const ofFeatures = features.flatMap(({ errors = [] }) => errors)
const inDocuments = features.flatMap(({ problems = [] }) => problems)

/** The groups in their order, with the error tables of the kernel. */
const GROUPS: readonly ErrorGroup[] = [
  {
    title: 'Traffic',
    where:
      'In the field `sluice-error-code` of an answer with the status, in `error.code` of the access log, of traffic events and of the results of actions, and in the label `code` of `sluice_failures_total`.',
    tables: [flowErrors, internalRequestErrors, moduleErrors, ...ofFeatures]
  },
  {
    title: 'Requests that Sluice makes itself',
    where:
      'In `error.code` of the results of the action `http-request`, in the state of event destinations and in the log.',
    tables: [outboundErrors, redirectErrors]
  },
  {
    title: 'Management API',
    where:
      'In `error_code` of an answer of the API, after `ERR_SLUICE_`. Problems of a policy document stand there as `ERR_SLUICE_POLICY_` and a code of the next group, with the status 400.',
    tables: [apiErrors, controlErrors, fieldErrors]
  },
  {
    title: 'Policy documents',
    where: 'In the output of `sluice check`, at start and, after `ERR_SLUICE_POLICY_`, in answers of the API.',
    tables: [policyErrors, expressionErrors, ...inDocuments]
  },
  {
    title: 'Warnings of policy documents',
    where:
      'In the output of `sluice check`, `plan` and `apply`, in the field `warnings` of a write and of a dry run of the API, and once in the log when the document is accepted. The document runs all the same.',
    tables: [policyWarnings]
  },
  {
    title: 'Site files',
    where:
      'In the output of `sluice check`, at start and in the log when a changed file is refused, beside the codes of fields of the management API and of policy documents.',
    tables: []
  },
  {
    title: 'Certificates and keys',
    where: 'In `details.reason` of an answer of the API.',
    tables: [x509Errors, authorityErrors, requestErrors]
  },
  {
    title: 'Certificates that are requested',
    where: 'In `error_code` of the provisioning job of a reserved domain.',
    tables: [provisioningErrors]
  },
  {
    title: 'Start and store',
    where: 'In the log, and where a command or the API says why something failed.',
    tables: [
      startErrors,
      fileErrors,
      optionErrors,
      operatorKeyErrors,
      sealErrors,
      sealKeyErrors,
      storeErrors,
      copyErrors,
      portErrors,
      loginStartErrors,
      wafStartErrors,
      providerErrors
    ]
  },
  {
    title: 'Agents',
    where: 'In the output and the log of an agent, and in the log of the server.',
    tables: []
  },
  {
    title: 'Commands',
    where: 'In the output of `sluice import` and of the other commands.',
    tables: [commandErrors, treeErrors]
  }
]

/** Returns every error code of Sluice: the tables of the kernel and of all capabilities. */
export async function errorGroups(): Promise<readonly ErrorGroup[]> {
  const ofCapabilities = await capabilityErrors()
  return GROUPS.map(({ title, where, tables }) => {
    return { title, where, tables: [...tables, ...ofCapabilities.flatMap((errors) => errors[title] ?? [])] }
  })
}

/** One metric as `/metrics` names it. */
export interface MetricEntry {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
}

/** Returns every metric, sorted by name. They are registered as by a server, but not measured. */
export async function metricEntries(): Promise<readonly MetricEntry[]> {
  const unread = (): never => {
    throw new TypeError('metrics that are only listed are not read')
  }
  const metrics = new Metrics()
  const { registry } = metrics
  metrics.observeProcess()
  metrics.observe(policyServices(offline(actions)))
  observeNames(registry, systemClock)
  observeStore(registry, unread)
  observeLog(registry, unread)
  observeAgents(registry, unread)
  observeSpans(registry, unread)
  observeRestrictions(registry, unread)
  observeDeliveries(registry, unread)
  observeUpstreams(registry, unread)
  observeUpstreamNames(registry, unread)
  for (const { metrics: families } of await serverCapabilities()) {
    for (const family of families) registerFamily(registry, family, unread)
  }
  observeHealth(registry, {
    reasons: [],
    holding: unread,
    storeUp: unread,
    behind: unread,
    appliedAt: unread,
    loop: unread,
    descriptors: unread
  })
  return registry
    .getMetricsAsArray()
    .map((metric) => {
      const { labelNames = [] } = metric as { readonly labelNames?: readonly string[] }
      return { name: metric.name, type: String(metric.type), help: metric.help, labels: labelNames }
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}
