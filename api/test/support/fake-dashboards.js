/** Saved dashboards in memory, behind the questions that the api asks. */

/** @typedef {import('../../src/dashboards/store.js').Dashboard} Dashboard */
/** @typedef {typeof import('../../src/dashboards/store.js')} Store */
/** @typedef {ReturnType<Store['dashboardQuestions']>} Questions */

/** @returns {Questions} */
export function fakeDashboards() {
  /** @type {Map<string, Dashboard>} */
  const rows = new Map()
  return {
    async dashboards() {
      return [...rows.values()].map(({ id, body, changedMs }) => {
        return { id, name: body.name, bytes: JSON.stringify(body).length, changedMs }
      })
    },
    async dashboard(id) {
      return rows.get(id.toLowerCase())
    },
    async addDashboard(added) {
      rows.set(added.id, added)
    },
    async replaceDashboard(wanted, beforeMs) {
      if (rows.get(wanted.id)?.changedMs !== beforeMs) return false
      rows.set(wanted.id, wanted)
      return true
    },
    async removeDashboard(id) {
      rows.delete(id)
    },
  }
}
