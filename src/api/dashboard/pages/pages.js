import { capabilityPages } from 'capability-pages'

/**
 * A page is a module of its own, loaded when it is opened.
 * @typedef {{ id: string, title: string, load: () => Promise<{ default: (props: { path: string[], query: URLSearchParams }) => any }> }} Page
 */

/** Pages of the kernel, and of capabilities whose page is not in their folder yet. @type {readonly Page[]} */
const kernelPages = [
  { id: 'overview', title: 'Overview', load: () => import('./overview.js') },
  { id: 'traffic', title: 'Traffic', load: () => import('./traffic.js') },
  { id: 'routes', title: 'Routes', load: () => import('./routes.js') },
  { id: 'policies', title: 'Policies', load: () => import('./policies.js') },
  { id: 'agents', title: 'Agents', load: () => import('./agents.js') },
  { id: 'users', title: 'Users', load: () => import('./users.js') },
  { id: 'certificates', title: 'Certificates', load: () => import('./certificates.js') },
  { id: 'events', title: 'Events', load: () => import('./events.js') },
  { id: 'history', title: 'History', load: () => import('./history.js') },
  { id: 'processes', title: 'Processes', load: () => import('./processes.js') }
]

/** All pages, in the order of the navigation. @type {readonly Page[]} */
export const pages = kernelPages.flatMap((page) => [page, ...capabilityPages.filter(({ after }) => after === page.id)])
