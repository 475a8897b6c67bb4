// JupyterHub's choice of light or dark, before anything is drawn.
const chosen = localStorage.getItem("jupyterhub-bs-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
