import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { WAF_REPORT } from './answers.js'
import { type FirewallReports, WAF_REPORT_SCHEMA } from './firewall-report.js'

/** Maximum size of a body with an archive in it (bytes). */
const LARGEST_ARCHIVE = 8 * 1024 * 1024

const reportFirewall = defineRoute({
  method: 'POST',
  path: '/waf/report',
  id: 'reportFirewall',
  summary:
    'Reports which rules of the web application firewall match recorded exchanges, and proposes exclusions for false positives. Sends and changes nothing.',
  right: 'exchanges',
  body: { schema: WAF_REPORT_SCHEMA, optional: true, limit: LARGEST_ARCHIVE },
  answers: 'The report.',
  answer: WAF_REPORT,
  example: {
    rules: { name: 'OWASP_CRS/4.14.0', size: 402, digest: '9f2c…' },
    exchanges: 1200,
    clients: 48,
    from: '2026-01-31T12:00:00.000Z',
    to: '2026-01-31T13:00:00.000Z',
    matched: 9,
    denied: 7,
    not_judged: 0,
    findings: [
      {
        route: 'shop.example.com/',
        action: 'owasp-crs-request',
        path: '/comments',
        rule: 942100,
        message: 'SQL Injection Attack Detected via libinjection',
        variable: 'ARGS:text',
        exchanges: 7,
        clients: 5,
        denied: 7,
        accepted: 7,
        rejected: 0,
        signed_in: 7,
        values: ["it's -- fine"],
        likelihood: 'likely',
        reasons: ['5 different clients', 'the upstream accepted 7 of 7', '7 of 7 signed in']
      }
    ],
    omitted: 0,
    proposals: [
      {
        route: 'shop.example.com/',
        action: 'owasp-crs-request',
        source: '/edges/https/edghts_2aB/routes/edghtsrt_2aC',
        exclusions: [{ when: "req.url.path == '/comments'", rules: [942100], targets: ['ARGS:text'] }],
        yaml: 'exclusions:\n  - when: "req.url.path == \'/comments\'"\n    rules: [942100]\n    targets: ["ARGS:text"]'
      }
    ],
    withheld: [],
    proof: {
      exchanges: 1200,
      not_judged: 0,
      denied: { before: 7, after: 0 },
      hostile: { before: 0, after: 0 }
    }
  },
  run: ({ body }, reports: FirewallReports) => reports.report(body)
})

/** Routes of the web application firewall. */
export const wafRoutes: RouteGroup<FirewallReports> = {
  tag: 'Firewall',
  description: 'What the web application firewall finds in traffic of this process.',
  routes: [reportFirewall]
}
