/** Certificates: how long each is valid, and those that are renewed by Sluice itself. */

import { call } from './api.js'
import { Create, Delete } from './records.js'
import { Action, Badge, Empty, html, Listed, Page, Problem, refusalOf, Table, useList, When } from './ui.js'

const EVERY = 15_000
const DAY = 86_400_000
/** A certificate that ends sooner is worth a look. Days. */
const SOON = 21

const DOMAIN = { right: 'reserved_domain.update', what: '' }
const INGRESS = { right: 'agent_ingress.update', what: ' (for agents)' }

/** The page. */
export default function CertificatesPage() {
  const certificates = useList('/tls_certificates', 'tls_certificates', { every: EVERY })
  const domains = useList('/reserved_domains', 'reserved_domains', { every: EVERY })
  const ingresses = useList('/agent_ingresses', 'ingresses', { every: EVERY })
  const managed = [
    ...(domains.rows ?? []).map((row) => ({ ...row, list: domains, path: '/reserved_domains', ...DOMAIN })),
    ...(ingresses.rows ?? []).map((row) => ({ ...row, list: ingresses, path: '/agent_ingresses', ...INGRESS }))
  ].filter((row) => row.certificate_management_policy !== null)
  const renew = (/** @type {any} */ { path, id, list }) =>
    call('POST', `${path}/${id}/certificate/renew`).then(() => list.reload())
  const byId = new Map((certificates.rows ?? []).map((row) => [row.id, row]))
  return html`<${Page} title="Certificates" lead="TLS certificates that clients get, and when they expire.">
    <h2>Managed</h2>
    <${Problem} error=${ingresses.error} />
    <${Listed} list=${domains}>
      <${Table}
        label="Domains with a managed certificate"
        rows=${managed}
        id=${(/** @type {any} */ row) => row.id}
        tone=${(/** @type {any} */ row) => (row.certificate_management_status?.provisioning_job?.error_code ? 'bad' : undefined)}
        empty=${html`<${Empty} title="No automatic certificates" command=${'acme: { agree_to_terms: true }'}>
          With this line in a site file, or a <code>certificate_management_policy</code> of a reserved domain, certificates come by ACME and
          are renewed by themselves.
        <//>`}
        columns=${[
          { title: 'Domain', cell: (/** @type {any} */ row) => row.domain + row.what },
          {
            title: 'State',
            cell: (/** @type {any} */ row) => html`<${State} status=${row.certificate_management_status} />`
          },
          {
            title: 'Valid until',
            cell: (/** @type {any} */ row) => html`<${Until} at=${byId.get(row.certificate?.id)?.not_after} />`
          },
          {
            title: 'Renewed at',
            cell: (/** @type {any} */ row) => html`<${When} at=${row.certificate_management_status?.renews_at} />`
          },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) =>
              html`<${Action} label="Renew now" reason=${refusalOf(row.right)} run=${() => renew(row)} done="Ordered" />`
          }
        ]}
      />
    <//>
    <h2>All certificates</h2>
    <div class="actions">
      <${Create}
        label="Create a certificate"
        resource="tls_certificate"
        path="/tls_certificates"
        secret=${true}
        fields=${[
          { name: 'description', label: 'Description' },
          {
            name: 'certificate_pem',
            label: 'Certificates (PEM)',
            hint: 'The chain, that of the server first.',
            lines: 6,
            required: true
          },
          { name: 'private_key_pem', label: 'Private key (PEM)', lines: 6, required: true }
        ]}
        body=${(/** @type {any} */ values) => values}
        done=${certificates.reload}
      />
    </div>
    <${Listed} list=${certificates}>
      <${Table}
        label="Certificates"
        rows=${certificates.rows ?? []}
        id=${(/** @type {any} */ row) => row.id}
        tone=${(/** @type {any} */ row) => toneUntil(row.not_after)}
        empty=${html`<${Empty} title="No certificates">
          Add one in a site file (<code>certificates:</code>), by ACME, or with <code>POST /tls_certificates</code>.
        <//>`}
        columns=${[
          {
            title: 'Subject',
            cell: (/** @type {any} */ row) =>
              row.subject_common_name || row.subject_alternative_names.dns_names[0] || row.id
          },
          {
            title: 'Names',
            cell: (/** @type {any} */ row) =>
              [...row.subject_alternative_names.dns_names, ...row.subject_alternative_names.ips].join(', ')
          },
          { title: 'Issuer', cell: (/** @type {any} */ row) => row.issuer_common_name },
          { title: 'Key', cell: (/** @type {any} */ row) => row.private_key_type },
          { title: 'Valid until', cell: (/** @type {any} */ row) => html`<${Until} at=${row.not_after} />` },
          {
            title: 'Comes from',
            cell: (/** @type {any} */ row) =>
              row.declared ? `${row.declared.file}:${row.declared.line}` : row.description || row.id
          },
          {
            title: 'Commands',
            cell: (/** @type {any} */ row) =>
              html`<${Delete} resource="tls_certificate" path=${`/tls_certificates/${row.id}`} name=${row.subject_common_name || row.id} declared=${row.declared} done=${certificates.reload} />`
          }
        ]}
      />
    <//>
  <//>`
}

/** @param {{ status: any }} props */
function State({ status }) {
  const job = status?.provisioning_job
  if (!job) return html`<${Badge} tone="good">valid<//>`
  if (job.error_code === null) return html`<${Badge} tone="info">${job.msg || 'under way'}<//>`
  return html`<${Badge} tone="bad">${job.error_code}<//> ${job.msg}
    ${job.retries_at === null ? null : html` Next attempt: <${When} at=${job.retries_at} />`}`
}

/** @param {string} at */
function toneUntil(at) {
  const days = (Date.parse(at) - Date.now()) / DAY
  return days < 0 ? 'bad' : days < SOON ? 'warn' : undefined
}

/** @param {{ at: string | undefined }} props */
function Until({ at }) {
  if (at === undefined) return html`<span>–</span>`
  const days = Math.floor((Date.parse(at) - Date.now()) / DAY)
  const text = days < 0 ? `expired ${-days} ${days === -1 ? 'day' : 'days'} ago` : `${days} days`
  return html`<${When} at=${at} /> <${Badge} tone=${toneUntil(at) ?? 'good'}>${text}<//>`
}
