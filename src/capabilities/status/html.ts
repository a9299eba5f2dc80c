import { createHash } from 'node:crypto'
import { escapeHtml } from '../../lib/printable.js'
import type { StatusView } from './answers.js'

const STYLE = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}
table{width:100%;border-collapse:collapse}
th,td{text-align:left;padding:.4rem 0;border-bottom:1px solid #8884}
td:last-child,th:last-child{text-align:right}
.up{color:#1a7f37}.degraded{color:#9a6700}.down{color:#cf222e}
@media(prefers-color-scheme:dark){.up{color:#3fb950}.degraded{color:#d29922}.down{color:#f85149}}`

const HEADINGS = {
  up: 'All sites are up',
  degraded: 'Some sites are not fully up',
  down: 'All sites are down'
} as const

/** Content security policy of the page: its own style, and nothing else. */
export const STATUS_PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join('; ')

/** Returns the status page, which needs no script and loads nothing. */
export function statusPage({ status, checked_at, sites, omitted }: StatusView): string {
  const rows = sites.map(
    ({ name, status: state }) => `<tr><td>${escapeHtml(name)}</td><td class="${state}">${state}</td></tr>`
  )
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="30">
<title>Status: ${status}</title>
<style>${STYLE}</style>
</head>
<body>
<h1 class="${status}">${sites.length === 0 ? 'There are no sites' : HEADINGS[status]}</h1>
<table>
<thead><tr><th scope="col">Site</th><th scope="col">Status</th></tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table>
${omitted === 0 ? '' : `<p>${omitted} more are not listed.</p>\n`}<p>Checked at <time datetime="${checked_at}">${checked_at}</time>.</p>
</body>
</html>
`
}
