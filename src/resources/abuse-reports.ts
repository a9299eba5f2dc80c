import Type from 'typebox'
import { choice, computed, described, texts } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { defineResource } from './resource.js'

/** Maximum number of URLs of a report. */
const MAX_URLS = 100

function parseHost(url: string): string | undefined {
  return /^https?:/i.test(url) && URL.canParse(url) ? new URL(url).hostname : undefined
}

function checkUrls({ body, report }: RuleView): void {
  for (const [index, url] of (body.urls as readonly string[]).entries()) {
    if (parseHost(url) === undefined) report(`urls[${index}]`, 'FIELD_INVALID', 'must be an http or https URL')
  }
}

const hostname = Type.Object(
  {
    hostname: Type.String({ description: 'Host of a reported URL.' }),
    status: Type.String({ description: 'What was done about it; always PENDING.' })
  },
  { description: 'A reported host.' }
)

/** Report of abusive content: it is stored and announced by its event; people act on it. */
export const abuseReport = defineResource({
  name: 'abuse_report',
  description:
    'A report of URLs with abusive content. It is stored and announced by its event; Sluice blocks nothing by itself.',
  path: '/abuse_reports',
  listKey: 'abuse_reports',
  idPrefix: 'abrp',
  events: 'abuse_report',
  rules: [{ on: ['urls'], check: checkUrls }],
  fields: {
    metadata: described.metadata,
    urls: texts({
      description: 'The reported URLs.',
      item: 'An http or https URL.',
      bytes: 2048,
      min: 1,
      max: MAX_URLS,
      required: true,
      fixed: true
    }),
    status: choice(['PENDING', 'PROCESSED', 'PARTIALLY_PROCESSED'], {
      description: 'State of the report, as people set it.',
      default: 'PENDING'
    }),
    hostnames: computed(Type.Array(hostname), 'Hosts of the reported URLs.', (_stored, _path, { body }) => {
      const hosts = (body.urls as readonly string[]).map((url) => parseHost(url) ?? '')
      return [...new Set(hosts)].map((host) => ({ hostname: host, status: 'PENDING' }))
    })
  }
})
